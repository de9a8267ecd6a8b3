#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "server/session/terms/homes.h"
#include "tests/support/durable_cluster.h"

namespace pulsegate {

/// A client with that home shard.
inline std::string client_at(unsigned shard, unsigned shards, std::string name) {
    while (Homes(shards).shard_of(name) != shard) name += '+';
    return name;
}

inline void pass(DurableCluster& brokers, Millis time) {
    brokers->now += time;
    brokers->store_overdue();
}

/// All that the one shard has sent to the other so far.
inline void deliver_all(DurableCluster& brokers, unsigned from, unsigned to) {
    const BrokerCluster::Pair pair{from, to};
    const auto waits = [&] { return std::ranges::count(brokers->pairs_with_messages(), pair) > 0; };
    while (waits()) brokers.deliver(pair);
}

/// Has a session, and takes what is sent to the filter.
inline void arrive(PlainClient& client, const std::string& filter) {
    client.connect(false);
    client.send("82 r k1 s'" + filter + "' 02");
}

/// The shard hands in what it has to store, and all that was handed in is committed.
inline void commit_of(DurableCluster& brokers, unsigned shard) {
    deliver_all(brokers, shard, shard);
    brokers.commit();
    deliver_all(brokers, shard, shard);
}

inline std::uint64_t stored(DurableCluster& brokers) {
    return brokers->broker(0).admin().journal().messages();
}

}  // namespace pulsegate
