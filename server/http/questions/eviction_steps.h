#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>

#include "server/http/questions/api_context.h"
#include "server/limits/address.h"
#include "server/session/terms/eviction.h"

namespace pulsegate {

// Clients are disconnected in steps, a few in each round of their shard.

/// Returns when all the clients have gone. Nothing if a shard does not answer in time.
boost::asio::awaitable<std::optional<Evicted>> evict_all(const ApiContext& api, Eviction eviction);

/// The same for all clients at an address, on all shards. Drops their wills.
boost::asio::awaitable<std::optional<Evicted>> evict_all(const ApiContext& api, Address address);

}  // namespace pulsegate
