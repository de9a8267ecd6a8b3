#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "server/http/questions/api_context.h"
#include "server/http/serving/api_message.h"

namespace pulsegate {

/// The end of a wait for the store that begins now. If it takes longer, the disk is probably stuck,
/// and the connection is needed for other requests.
std::chrono::steady_clock::time_point store_deadline();

/// Waits until the store has all changes that a shard, or each shard, has made so far. False if the
/// store is in trouble or needs more than 10 s.
boost::asio::awaitable<bool> is_stored_by(const ApiContext& api, std::size_t shard);
boost::asio::awaitable<bool> is_stored_by_all(const ApiContext& api);

/// A reply with 503 that names the fault of the disk or of Redis, and its consequence.
ApiReply store_refusal(const ApiContext& api, std::string_view consequence,
                       boost::json::object more = {});

}  // namespace pulsegate
