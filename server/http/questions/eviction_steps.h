#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>

#include "server/http/questions/api_context.h"
#include "server/limits/address.h"
#include "server/session/terms/eviction.h"

namespace pulsegate {

// Clients are thrown out a few in each turn of their shard.

/// Returns when all clients that it is about have gone. Nothing: a shard does not answer in time.
boost::asio::awaitable<std::optional<Evicted>> evict_all(const ApiContext& api, Eviction eviction);

/// The same for those at an address, on all shards. Their wills are dropped.
boost::asio::awaitable<std::optional<Evicted>> evict_all(const ApiContext& api, Address address);

}  // namespace pulsegate
