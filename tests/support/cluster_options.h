#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "server/cluster/membership.h"
#include "server/redis/redis_target.h"
#include "tests/support/patience.h"
#include "tests/support/sanitized.h"

namespace pulsegate {

/// A node that hurries: its lease is a second, or two in a sanitizer's build. Its link has a port
/// of its own.
inline Membership::Options hurried_node(std::string name, RedisTarget redis) {
    Membership::Options options;
    options.redis = std::move(redis);
    options.node_name = std::move(name);
    options.link.listen = "127.0.0.1:0";
    options.beat = std::chrono::milliseconds(50);
    options.lease = std::chrono::milliseconds(sanitized ? 2000 : 1000);
    return options;
}

/// A call of Redis is given up before the lease ends, as it is with the usual settings.
inline Membership::Options patient_node(std::string name, RedisTarget redis) {
    Membership::Options options = hurried_node(std::move(name), std::move(redis));
    options.beat = std::chrono::milliseconds(sanitized ? 1000 : 500);
    options.lease = 8 * options.beat;
    return options;
}

/// For `Membership::await_ownership`: gives up after twice the lease of a node that hurries.
inline auto after_two_leases() {
    const auto end = std::chrono::steady_clock::now() + 2 * hurried_node("", {}).lease;
    return [end] { return std::chrono::steady_clock::now() > end; };
}

inline bool own(Membership& node) {
    const auto end = std::chrono::steady_clock::now() + test_patience;
    return node.await_ownership([end] { return std::chrono::steady_clock::now() > end; });
}

inline RowChange row(Partition partition, std::string table, std::string field, std::string value) {
    return {{partition, std::move(table), std::move(field)}, std::move(value)};
}

inline RowChange no_row(Partition partition, std::string table, std::string field) {
    return {{partition, std::move(table), std::move(field)}, {}};
}

}  // namespace pulsegate
