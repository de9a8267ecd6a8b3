#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string_view>

#include "server/http/api_message.h"

namespace pulsegate {

class DataStore;

/// `POST /api/v1/backup` with `{"file":…,"overwrite":false}`: has the store backed up, and waits
/// for the end, for minutes if need be.
boost::asio::awaitable<ApiReply> back_up(boost::asio::io_context& io, DataStore& store,
                                         std::string_view body);

}  // namespace pulsegate
