#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "server/http/questions/api_context.h"
#include "server/http/serving/api_message.h"

namespace pulsegate {

/// Waits until the store has all that a shard, or each of them, was told so far. False: the store
/// is in trouble, or it takes more than 10 s.
boost::asio::awaitable<bool> is_stored_by(const ApiContext& api, std::size_t shard);
boost::asio::awaitable<bool> is_stored_by_all(const ApiContext& api);

/// 503: what is wrong with the disk, or with Redis, and what follows from it.
ApiReply store_refusal(const ApiContext& api, std::string_view consequence,
                       boost::json::object more = {});

}  // namespace pulsegate
