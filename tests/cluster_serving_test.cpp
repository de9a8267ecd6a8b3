#include <doctest/doctest.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/cluster/cluster_view.h"
#include "server/cluster/membership.h"
#include "server/redis/redis_connection.h"
#include "tests/support/claimed_port.h"
#include "tests/support/cluster_options.h"
#include "tests/support/looking_node.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/redis_server.h"

// Which node serves while Redis is away for longer than a lease.

using namespace pulsegate;

namespace {

void tell_server(const RedisServer& redis, std::initializer_list<std::string_view> words) {
    const auto soon = RedisConnection::Clock::now() + test_patience;
    REQUIRE_FALSE(RedisConnection(redis.target(), soon).call(words, soon).is_error());
}

/// With this port for its link, so that a restarted node has the same address.
Membership::Options node_at(const ClaimedPort& port, Membership::Options options) {
    options.link.listen = "127.0.0.1:" + std::to_string(port.number());
    return options;
}

/// A node that owns the data, and one that stands by and has seen it beat.
struct OwnerAndStandby {
    OwnerAndStandby() {
        REQUIRE(own(owner));
        const Looking looks(owner);
        int turns = 0;
        standby.await_ownership([&] { return ++turns > 20; });
    }
    /// Longer than a lease.
    void stand_by_without_redis() {
        redis.stop();
        const auto end = std::chrono::steady_clock::now() + lease + lease / 4;
        standby.await_ownership([&] { return std::chrono::steady_clock::now() > end; });
    }
    /// On a busy machine the latest answer of the other node may be too old. Then the next one
    /// counts.
    bool owner_serves() const {
        return comes_true([&] { return owner.may_serve(); });
    }

    const QuietLog quiet{};
    RedisServer redis{};
    Membership owner{patient_node("a", redis.target())};
    Membership standby{patient_node("b", redis.target())};
    const std::chrono::milliseconds beat = patient_node("", redis.target()).beat;
    const std::chrono::milliseconds lease = patient_node("", redis.target()).lease;
};

}  // namespace

TEST_CASE("without Redis an owner serves as long as no other has it") {
    OwnerAndStandby nodes;
    const Looking looks(nodes.owner);
    nodes.stand_by_without_redis();
    CHECK(looks.answer() == RowStore::Answer::away);
    CHECK(nodes.owner_serves());
    nodes.redis.go_on();
}

TEST_CASE("without Redis an owner serves on while another node is restarted") {
    const QuietLog quiet;
    RedisServer redis;
    const ClaimedPort port;
    Membership owner(patient_node("a", redis.target()));
    REQUIRE(own(owner));
    const auto options = node_at(port, patient_node("b", redis.target()));
    std::optional<Membership> standby(std::in_place, options);
    while (owner.view().nodes.size() < 2) owner.look();
    redis.stop();
    standby.reset();
    std::thread starting([&] {
        for (bool has_joined = false; !has_joined;) try {
                const Membership again(options);
                has_joined = true;
            } catch (const RedisError&) {  // a supervisor starts it again
            }
    });
    const auto end = std::chrono::steady_clock::now() + 2 * options.lease;
    while (std::chrono::steady_clock::now() < end) owner.look();
    // On a busy machine the latest answer of the other node may be too old.
    CHECK(comes_true([&] {
        owner.look();
        return owner.may_serve();
    }));
    redis.go_on();
    starting.join();
}

TEST_CASE("an owner without Redis does not serve beside a node that has claimed its data") {
    const QuietLog quiet;
    RedisServer redis;
    const ClaimedPort port;
    tell_server(redis, {"ACL", "SETUSER", "owner", "on", ">secret", "~*", "&*", "+@all"});
    RedisTarget as_owner = redis.target();
    as_owner.user = "owner";
    as_owner.password = "secret";
    Membership owner(patient_node("a", as_owner));
    REQUIRE(own(owner));
    const auto options = node_at(port, patient_node("b", redis.target()));
    std::optional<Membership> taker;
    SUBCASE("if that one was restarted") {
        taker.emplace(options);
        while (owner.view().nodes.size() < 2) owner.look();
    }
    SUBCASE("if that one is new") {}
    tell_server(redis, {"ACL", "SETUSER", "owner", "off"});
    tell_server(redis, {"CLIENT", "KILL", "USER", "owner"});
    taker.reset();
    const Looking looks(owner);
    taker.emplace(options);
    REQUIRE(own(*taker));
    CHECK(looks.answer() == RowStore::Answer::away);
    CHECK_FALSE(owner.may_serve());
}

TEST_CASE(
    "without Redis, an owner never takes a node for dead if its link address leads to another "
    "machine") {
    const QuietLog quiet;
    RedisServer redis;
    auto options = patient_node("a", redis.target());
    options.link.address = "192.0.2.1:7883";
    Membership owner(options);
    REQUIRE(own(owner));
    options = patient_node("b", redis.target());
    options.link.address = "127.0.0.1:1";  // refuses connections on the owner's machine
    const Membership other(options);
    while (owner.view().nodes.size() < 2) owner.look();
    redis.stop();
    const auto end = std::chrono::steady_clock::now() + 2 * options.lease;
    while (owner.may_serve() && std::chrono::steady_clock::now() < end) owner.look();
    CHECK_FALSE(owner.may_serve());
    redis.go_on();
}

TEST_CASE("when Redis is back, an owner serves on although another node notices it first") {
    OwnerAndStandby nodes;
    {
        const Looking looks(nodes.owner);
        nodes.stand_by_without_redis();
    }
    REQUIRE(nodes.owner_serves());
    nodes.redis.go_on();
    // From the seventh beat on, the other node says that it could condemn the owner.
    std::optional<std::chrono::steady_clock::time_point> end;
    nodes.standby.await_ownership([&] {
        const auto now = std::chrono::steady_clock::now();
        if (end && now > *end) return true;
        if (!end && nodes.standby.view().redis.away.empty()) end = now + 4 * nodes.beat;
        REQUIRE(nodes.owner_serves());
        return false;
    });
    CHECK(comes_true([&] { return nodes.owner.look().answer == RowStore::Answer::done; }));
    CHECK(nodes.owner.may_serve());
}
