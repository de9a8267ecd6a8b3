#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <string>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// Waits until the store has all that a shard, or each of them, was told so far. False: the disk is
/// in trouble, or it takes more than 10 s.
boost::asio::awaitable<bool> is_stored_by(const ApiContext& api, std::size_t shard);
boost::asio::awaitable<bool> is_stored_by_all(const ApiContext& api);

}  // namespace pulsegate
