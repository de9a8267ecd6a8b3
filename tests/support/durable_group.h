#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "server/session/terms/homes.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"

namespace pulsegate {

inline constexpr const char* group = "$share/g/x";

// Of two shards, the group's and the other one.
inline constexpr unsigned shards = 2;
inline const unsigned home = Homes(shards).shard_of(group);
inline const unsigned other = 1 - home;

/// After a crash nothing of the group waits for its member.
inline void check_completed(DurableCluster& brokers, PlainClient& member) {
    member.connect(false);
    brokers.settle();
    CHECK(member.take() == hex(wire("20 r2 01 00")));
}

inline void publish(DurableCluster& brokers, const std::string& client, std::string_view message) {
    PlainClient desk(brokers, client);
    desk.connect(true);
    desk.send(message);
    brokers.settle();
    desk.lose_connection();
}

/// The helper, a client of 5.0, is a member of the group, and away.
inline void join_and_go(DurableCluster& brokers, PlainClient& helper) {
    helper.connect(false);
    helper.send("82 r k1 [] s'" + std::string(group) + "' 02");
    brokers.settle();
    helper.lose_connection();
}

}  // namespace pulsegate
