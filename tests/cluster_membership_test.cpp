#include <doctest/doctest.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/cluster/membership.h"
#include "server/cluster/row_call.h"
#include "server/cluster/rules/succession.h"
#include "tests/support/claimed_port.h"
#include "tests/support/cluster_options.h"
#include "tests/support/looking_node.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/redis_server.h"

// Nodes on a real Redis. One that is not called any more is one that was stopped: its link goes on
// answering, as the kernel's part of a stopped process does.

using namespace pulsegate;

namespace {

using Answer = RowStore::Answer;
using Rows = std::map<RowKey, std::string>;

Rows rows_of(Membership& node) {
    Rows rows;
    node.read_rows([&](const RowKey& key, std::string_view value) { rows[key] = value; });
    return rows;
}

/// Until Redis answers: on a busy machine it may take longer than a node waits.
template <class Ask>
Answer answer_of(Ask ask) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    Answer answer = ask();
    while (answer == Answer::away && std::chrono::steady_clock::now() < end) answer = ask();
    return answer;
}

Answer write(Membership& node, const std::vector<RowChange>& changes, bool may_overfill = false) {
    return answer_of([&] { return node.write(changes, may_overfill).answer; });
}

Answer look(Membership& node) {
    return answer_of([&] { return node.look().answer; });
}

}  // namespace

TEST_CASE("a node alone owns everything at once, and finds its rows again") {
    const QuietLog quiet;
    RedisServer redis;
    Rows written;
    {
        Membership node(hurried_node("a", redis.target()));
        REQUIRE(own(node));
        CHECK(write(node, {row(0, "user", "alice", "1"), row(127, "user", "bob", "2"),
                           row(global_partition, "bans", "eve", "3")}) == Answer::done);
        CHECK(write(node, {row(0, "user", "alice", "4"), no_row(127, "user", "bob")}) ==
              Answer::done);
        written = rows_of(node);
        CHECK(written ==
              Rows{{{0, "user", "alice"}, "4"}, {{global_partition, "bans", "eve"}, "3"}});
        CHECK(node.may_serve());
        CHECK(node.view().partitions.at(5).epoch == 1);
    }
    Membership again(hurried_node("a", redis.target()));
    REQUIRE(own(again));
    CHECK(rows_of(again) == written);
    CHECK(again.view().partitions.at(5).epoch == 2);
}

TEST_CASE("a unit of many rows of one table is one call") {
    const QuietLog quiet;
    RedisServer redis;
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    std::vector<RowChange> changes;
    // More texts than Lua unpacks at a time.
    for (int i = 0; i < 5'000; ++i) changes.push_back(row(7, "msg", std::to_string(i), "text"));
    CHECK(write(node, changes) == Answer::done);
    CHECK(rows_of(node).size() == 5'000);
    for (RowChange& change : changes) change.value.reset();
    CHECK(write(node, changes) == Answer::done);
    CHECK(rows_of(node).empty());
}

TEST_CASE("large rows are read a few at a time") {
    const QuietLog quiet;
    // Redis closes a connection that has a reply of 14 MB. All rows together have 20 MB.
    RedisServer redis({"--client-output-buffer-limit", "normal", "14mb", "14mb", "0"});
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    const std::string large(200'000, 'x');
    for (int i = 0; i < 100; ++i)
        CHECK(write(node, {row(7, "message", std::to_string(i), large)}) == Answer::done);
    CHECK(rows_of(node).size() == 100);
}

TEST_CASE("a second node of the same name is refused while the first one lives") {
    const QuietLog quiet;
    RedisServer redis;
    Membership first(hurried_node("a", redis.target()));
    const std::string why = complaint([&] { Membership(hurried_node("a", redis.target())); });
    CHECK(why.find("a node named a is running at 127.0.0.1:") != std::string::npos);
}

TEST_CASE("a second node of the same name is refused though the first one's address is its own") {
    const QuietLog quiet;
    RedisServer redis;
    const ClaimedPort port;
    const std::string address = "127.0.0.1:" + std::to_string(port.number());
    auto options = patient_node("a", redis.target());
    options.link.address = address;
    Membership first(options);
    const Looking looks(first);
    options.link.listen = address;
    const std::string why = complaint([&] { Membership second(options); });
    CHECK(why.find("a node named a is running at " + address) != std::string::npos);
}

TEST_CASE("an owner that was stopped changes no row after another has claimed") {
    const QuietLog quiet;
    RedisServer redis;
    Membership stopped(hurried_node("a", redis.target()));
    REQUIRE(own(stopped));
    CHECK(write(stopped, {row(1, "user", "alice", "1")}) == Answer::done);

    Membership taker(hurried_node("b", redis.target()));
    REQUIRE(own(taker));
    CHECK_FALSE(stopped.may_serve());
    CHECK(rows_of(taker) == Rows{{{1, "user", "alice"}, "1"}});
    CHECK(write(stopped, {row(1, "user", "alice", "2")}) == Answer::fenced);
    CHECK(look(stopped) == Answer::fenced);
    CHECK(write(taker, {row(1, "user", "bob", "3")}) == Answer::done);
    CHECK(rows_of(taker) == Rows{{{1, "user", "alice"}, "1"}, {{1, "user", "bob"}, "3"}});
    CHECK(taker.view().partitions.at(1).epoch == 2);
}

TEST_CASE("when an owner stops in order, one of the standby nodes claims everything") {
    const QuietLog quiet;
    RedisServer redis;
    std::optional<Membership> owner(std::in_place, hurried_node("a", redis.target()));
    REQUIRE(own(*owner));
    for (int round = 0; round < 3; ++round) {
        const std::string suffix = std::to_string(round);
        std::optional<Membership> first(std::in_place, hurried_node("b" + suffix, redis.target()));
        std::optional<Membership> second(std::in_place, hurried_node("c" + suffix, redis.target()));
        std::atomic<int> owners{0};
        const auto stand_by = [&](Membership& node) {
            owners += node.await_ownership([&] { return owners > 0; });
        };
        std::thread one(stand_by, std::ref(*first));
        std::thread other(stand_by, std::ref(*second));
        owner->leave();
        one.join();
        other.join();
        CHECK(owners == 1);
        const std::string taker = first->view().partitions.at(0).owner;
        if (first->view().self == taker) second->leave();
        if (second->view().self == taker) first->leave();
        owner.reset();
        const bool is_first = first->view().self == first->view().partitions.at(3).owner;
        CHECK(write(is_first ? *first : *second, {row(3, "t", suffix, "x")}) == Answer::done);
        owner.emplace(hurried_node("a" + suffix, redis.target()));
        (is_first ? *first : *second).leave();
        REQUIRE(own(*owner));
        CHECK(rows_of(*owner).size() == static_cast<std::size_t>(round + 1));
    }
}

TEST_CASE("a node that has just joined lets a node that was there before claim first") {
    const QuietLog quiet;
    RedisServer redis;
    const auto patient = [&](const std::string& name) {
        auto options = hurried_node(name, redis.target());
        options.lease = std::chrono::minutes(1);
        return options;
    };
    Membership owner(patient("a"));
    REQUIRE(own(owner));
    const bool is_b_first = place_in_succession(0, "b", {"b", "c"}) == 0;
    Membership elder(patient(is_b_first ? "c" : "b"));
    Membership newcomer(patient(is_b_first ? "b" : "c"));
    std::chrono::steady_clock::time_point left;
    int turns = 0;
    newcomer.await_ownership([&] {
        elder.look();  // it sends its heartbeats, and claims nothing
        if (++turns < 60) owner.look();
        if (turns == 60) {
            left = std::chrono::steady_clock::now();
            owner.leave();
        }
        return false;
    });
    CHECK(std::chrono::steady_clock::now() - left >= 3 * patient("").beat);
}

TEST_CASE("a claim holds though its answer was lost") {
    const QuietLog quiet;
    RedisServer redis;
    Membership node(hurried_node("a", redis.target()));
    const std::string claimed_by = node.view().self + ":0";
    std::vector<std::string> keys{"{pg}:beats"};
    for (Partition p = 0; p < partitions; ++p) keys.push_back(partition_key(p, "token"));
    std::vector<std::string_view> words{"FCALL", "pg1_claim", "129"};
    words.insert(words.end(), keys.begin(), keys.end());
    words.push_back(claimed_by);
    for (unsigned p = 0; p < partitions; ++p) words.insert(words.end(), {"", "1"});
    const auto soon = RedisConnection::Clock::now() + test_patience;
    REQUIRE_FALSE(RedisConnection(redis.target(), soon).call(words, soon).is_error());
    REQUIRE(own(node));
    CHECK(write(node, {row(0, "t", "f", "1")}) == Answer::done);
    CHECK(node.view().partitions.at(0).epoch == 1);
}

TEST_CASE("an owner that does nothing but write, and never looks, is not condemned") {
    const QuietLog quiet;
    RedisServer redis;
    Membership owner(hurried_node("a", redis.target()));
    REQUIRE(own(owner));
    Membership standby(hurried_node("b", redis.target()));
    std::atomic<bool> ends{false};
    std::thread writing([&] {
        for (int i = 0; !ends; ++i) owner.write({row(0, "t", std::to_string(i % 10), "x")}, false);
    });
    CHECK_FALSE(standby.await_ownership(after_two_leases()));
    ends = true;
    writing.join();
    CHECK(write(owner, {row(0, "t", "last", "x")}) == Answer::done);
}

TEST_CASE("a node that stands by, and was condemned, joins again") {
    const QuietLog quiet;
    RedisServer redis;
    Membership owner(hurried_node("a", redis.target()));
    REQUIRE(own(owner));
    Membership standby(hurried_node("b", redis.target()));
    const std::string before = standby.view().self;
    const auto is_condemned = [&] {
        CHECK(look(owner) == Answer::done);
        for (const auto& node : owner.view().nodes)
            if (node.incarnation == before) return node.is_condemned;
        return false;
    };
    REQUIRE(comes_true(is_condemned));
    standby.await_ownership([&] { return standby.view().self != before; });
    CHECK(standby.view().counters.fenced >= 1);  // a look that had no answer in time counts, too
    owner.leave();
    CHECK(own(standby));
}

TEST_CASE("a full Redis takes deletions, and then writes again") {
    const QuietLog quiet;
    RedisServer redis({"--maxmemory", "8mb"});
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    const std::string large(100'000, 'x');
    int rows = 0;
    Answer answer = Answer::done;
    for (; answer == Answer::done && rows < 1000; ++rows)
        answer = write(node, {row(2, "msg", std::to_string(rows), large)});
    REQUIRE(answer == Answer::full);
    CHECK(look(node) == Answer::done);
    // Beyond the bound nothing is written, but Redis is asked whether there is room.
    CHECK(write(node, {row(2, "msg", "over", large)}, true) == Answer::done);
    CHECK(write(node, {}) == Answer::full);
    for (int i = 0; i < rows / 2; ++i)
        CHECK(write(node, {no_row(2, "msg", std::to_string(i))}, true) == Answer::done);
    CHECK(write(node, {row(2, "msg", "new", "small")}) == Answer::done);
}

TEST_CASE("a late write of an earlier connection is refused") {
    const QuietLog quiet;
    RedisServer redis;
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    CHECK(write(node, {row(0, "t", "f", "old")}) == Answer::done);

    const auto soon = RedisConnection::Clock::now() + test_patience;
    RedisConnection beside(redis.target(), soon);
    const std::string token = beside.call({"GET", "{p0}:token"}, soon).text;
    CHECK_FALSE(
        beside.call({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}, soon).is_error());
    CHECK(write(node, {row(0, "t", "f", "new")}) == Answer::done);
    const RedisReply late = beside.call(
        {"FCALL", "pg1_unit", "2", "{p0}:token", "{p0}:t", "1", token, "2", "0", "f", "old"}, soon);
    CHECK(late.is_error("FENCED"));
    CHECK(rows_of(node) == Rows{{{0, "t", "f"}, "new"}});
}

TEST_CASE("a replica that is missing does not count as a copy") {
    const QuietLog quiet;
    RedisServer primary({"--repl-diskless-sync-delay", "0"});
    RedisServer replica({"--replicaof", "127.0.0.1 " + std::to_string(primary.port())});
    auto options = hurried_node("a", primary.target());
    options.replicas = 1;
    std::optional<Membership> node;
    REQUIRE(comes_true([&] {
        try {
            node.emplace(options);
        } catch (const RedisError&) {  // it is not connected yet
        }
        return node.has_value();
    }));
    REQUIRE(own(*node));
    CHECK(write(*node, {row(0, "t", "f", "1")}) == Answer::done);
    replica.stop();
    // The time for the replicas ends after the time for Redis, and the connection is well. On a
    // busy machine the pause may end before the write begins, or Redis may answer too late: then an
    // attempt proves nothing.
    using Clock = RedisConnection::Clock;
    constexpr std::chrono::seconds time_for_redis{1};
    const auto last_attempt = Clock::now() + test_patience;
    const auto soon = last_attempt + test_patience;
    RedisConnection beside(primary.target(), soon);
    bool is_proven = false;
    while (!is_proven && Clock::now() < last_attempt) {
        CHECK(beside.call({"CLIENT", "PAUSE", "300"}, soon).text == "OK");
        const auto began = Clock::now();
        const auto result = node->write({row(0, "t", "f", "2")}, false);
        CHECK(result.answer == Answer::away);
        is_proven =
            result.why == "0 of 1 replicas have it" && Clock::now() - began > time_for_redis;
    }
    CHECK(is_proven);
    replica.go_on();
    CHECK(write(*node, {row(0, "t", "f", "2")}) == Answer::done);
}

TEST_CASE("an owner that connects again while a replica is missing keeps its data") {
    const QuietLog quiet;
    RedisServer primary({"--repl-diskless-sync-delay", "0"});
    std::optional<RedisServer> replica;
    const auto soon = RedisConnection::Clock::now() + std::chrono::minutes(5);
    RedisConnection beside(primary.target(), soon);
    const auto await_replicas = [&](const std::string& count) {
        std::string info;
        while (info_field(info, "connected_slaves") != count ||
               info.find("state=wait") != std::string::npos ||
               info.find("state=send") != std::string::npos)
            info = beside.call({"INFO", "replication"}, soon).text;
    };
    const auto add_replica = [&] {
        replica.emplace(
            std::vector<std::string>{"--replicaof", "127.0.0.1 " + std::to_string(primary.port())});
        await_replicas("1");
    };
    beside.call({"ACL", "SETUSER", "owner", "on", ">secret", "~*", "&*", "+@all"}, soon);
    RedisTarget as_owner = primary.target();
    as_owner.user = "owner";
    as_owner.password = "secret";
    auto options = hurried_node("a", as_owner);
    options.replicas = 1;
    add_replica();
    Membership owner(options);
    REQUIRE(own(owner));
    options.redis = primary.target();
    options.node_name = "b";
    Membership other(options);
    {
        const Looking looks(owner);
        CHECK_FALSE(other.await_ownership(after_two_leases()));
        replica.reset();
        await_replicas("0");
        CHECK(comes_true([&] {  // it may be connecting at this moment
            return beside.call({"CLIENT", "KILL", "USER", "owner"}, soon).integer > 0;
        }));
        CHECK_FALSE(other.await_ownership(after_two_leases()));
        CHECK(comes_true([&] { return looks.answer() == Answer::done; }));
    }
    // The owner stands still, and `other` could not take over.
    CHECK_FALSE(other.await_ownership(after_two_leases()));
    CHECK(look(owner) == Answer::done);
    CHECK(owner.may_serve());
    CHECK(comes_true([&] {  // or there is no answer in time
        const auto result = owner.write({row(0, "t", "f", "1")}, false);
        CHECK(result.answer == Answer::away);
        return result.why.find("0 replicas are connected") != std::string::npos;
    }));
    CHECK(look(owner) == Answer::done);

    owner.leave();
    CHECK(comes_true([&] {
        CHECK_FALSE(other.await_ownership(after_two_leases()));  // it could store nothing
        return other.view().redis.away.find("0 replicas are connected") != std::string::npos;
    }));
    add_replica();
    REQUIRE(own(other));
    CHECK(write(other, {row(0, "t", "f", "2")}) == Answer::done);
}
