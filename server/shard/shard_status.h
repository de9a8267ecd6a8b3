#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/base/counters.h"
#include "server/store/ledger/ledger.h"
#include "wheel/wheel.h"

namespace pulsegate {

/// A copy of a shard's state and counters, which any thread may read.
struct ShardStatus {
    Counters counters;
    std::size_t connections;
    std::vector<std::pair<std::string, std::size_t>> listeners;  ///< with their connections
    std::size_t connected;
    std::size_t forwarded = 0;  ///< clients of edges that have a link
    std::size_t elsewhere = 0;  ///< these, and clients that an edge without a link has left
    std::vector<std::pair<std::string, std::size_t>> edges{};  ///< that have a link, with clients
    std::size_t disconnected;
    std::size_t waiting;
    std::size_t subscriptions;
    std::size_t users;
    std::size_t online;
    std::size_t retained;
    std::size_t retained_bytes;
    std::uint64_t stored;  ///< messages stored since the start
    std::uint64_t spared;  ///< messages acknowledged before they had to be stored
    DelayedTotal delayed;  ///< of all shards, reported by the first
    bool store_refuses;
    std::uint64_t left_out;  ///< by the store, of all shards, reported by the first
    std::uint64_t damaged;   ///< in the store: pages and rows, reported by the first
    std::int64_t
        damage_found;        ///< Unix time of the damage that a start found, reported by the first
    std::size_t data_bytes;  ///< of all shards, reported by the first
    std::size_t max_data_bytes;
    std::size_t logins_waiting;
    std::size_t backlog;
    Tick tick;
    std::array<std::uint32_t, Wheel::slots> slots;
};

}  // namespace pulsegate
