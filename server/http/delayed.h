#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/verb.hpp>
#include <string_view>

#include "server/http/api_message.h"
#include "server/session/settings.h"

namespace pulsegate {

class DataStore;

inline constexpr std::string_view delayed_path = "/api/v1/delayed";

struct DelayedRequest {
    boost::beast::http::verb method;
    std::string_view number;  ///< behind `delayed_path`, if there is one
    std::string_view query;
    std::string_view body;
};

/// `/api/v1/delayed`: POST publishes messages later, all of a request or none; GET lists those that
/// wait; DELETE cancels them. They need no shard: the store keeps them.
boost::asio::awaitable<ApiReply> delayed(boost::asio::io_context& io, DataStore& store,
                                         const BrokerSettings& settings, DelayedRequest request);

}  // namespace pulsegate
