#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/cluster/cluster_view.h"
#include "server/cluster/membership.h"
#include "server/cluster/row_call.h"
#include "server/cluster/rules/pace.h"
#include "tests/support/cluster_options.h"
#include "tests/support/looking_node.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/redis_server.h"

// A Redis that is stopped, killed, set back and emptied under its owner.

using namespace pulsegate;

namespace {

using Answer = RowStore::Answer;
using Fields = std::map<std::string, std::string>;

/// Only what is saved survives a restart: a failover loses a tail of any length.
const std::vector<std::string> in_memory{"--appendonly", "no", "--save", ""};

Membership::Options forgetful_node(const std::string& name, const RedisServer& redis) {
    auto options = hurried_node(name, redis.target());
    options.durability = RedisDurability::none;
    return options;
}

void ask(RedisConnection& redis, std::initializer_list<std::string_view> words) {
    const auto soon = RedisConnection::Clock::now() + test_patience;
    REQUIRE_FALSE(redis.call(words, soon).is_error());
}

void ask(const RedisServer& redis, std::initializer_list<std::string_view> words) {
    const auto soon = RedisConnection::Clock::now() + test_patience;
    RedisConnection connection(redis.target(), soon);
    ask(connection, words);
}

void save(const RedisServer& redis) { ask(redis, {"SAVE"}); }

void empty(const RedisServer& redis) { ask(redis, {"FLUSHALL"}); }

RedisTarget both(const RedisServer& first, const RedisServer& second) {
    RedisTarget target = first.target();
    target.addresses.push_back(second.target().addresses.front());
    return target;
}

Fields fields_of(Membership& node) {
    Fields fields;
    node.read_rows([&](const RowKey& key, std::string_view value) { fields[key.field] = value; });
    return fields;
}

/// Until Redis answers: on a busy machine it may take longer than a node waits.
RowStore::Result write(Membership& node, const std::vector<RowChange>& changes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
        auto result = node.write(changes, false);
        if (result.answer != Answer::away || std::chrono::steady_clock::now() > end) return result;
    }
}

RowStore::Result write(Membership& node, const std::string& field, const std::string& value) {
    return write(node, {row(9, "t", field, value)});
}

}  // namespace

TEST_CASE("a Redis that stands still costs an owner nothing but time") {
    const QuietLog quiet;
    RedisServer redis;
    Membership node(patient_node("a", redis.target()));
    REQUIRE(own(node));
    CHECK(write(node, "f", "1").answer == Answer::done);
    redis.stop();
    const auto result = node.write({row(9, "t", "f", "2")}, false);
    CHECK(result.answer == Answer::away);
    CHECK_FALSE(result.why.empty());
    CHECK(node.may_serve());  // no other node could have claimed anything
    redis.go_on();
    CHECK(write(node, "f", "3").answer == Answer::done);
    CHECK(fields_of(node) == Fields{{"f", "3"}});
    CHECK(node.view().partitions.at(9).epoch == 1);
}

TEST_CASE("an owner goes on after Redis was killed and has read its log") {
    const QuietLog quiet;
    RedisServer redis;
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    for (int i = 0; i < 3; ++i) {
        CHECK(write(node, std::to_string(i), "x").answer == Answer::done);
        redis.kill();
        CHECK(node.write({row(9, "t", "lost", "x")}, false).answer == Answer::away);
        redis.start();
    }
    CHECK(write(node, "last", "x").answer == Answer::done);
    node.look();
    CHECK(node.view().counters.confirms == 3);
    CHECK(node.view().partitions.at(9).epoch == 1);
    Fields fields = fields_of(node);
    fields.erase("lost");
    CHECK(fields == Fields{{"0", "x"}, {"1", "x"}, {"2", "x"}, {"last", "x"}});
}

TEST_CASE("an owner writes again what a failover has lost") {
    const QuietLog quiet;
    RedisServer redis(in_memory);
    Membership node(forgetful_node("a", redis));
    REQUIRE(own(node));
    CHECK(write(node, "kept", "1").answer == Answer::done);
    CHECK(write(node, "gone", "1").answer == Answer::done);
    save(redis);
    CHECK(write(node, "lost", "1").answer == Answer::done);
    CHECK(write(node, "lost", "2").answer == Answer::done);
    CHECK(write(node, {no_row(9, "t", "gone")}).answer == Answer::done);
    CHECK(write(node, {row(global_partition, "bans", "eve", "1")}).answer == Answer::done);
    redis.kill();
    Millis away = 0;
    SUBCASE("at once") {}
    SUBCASE("a minute ago") { away = 60'000; }
    CAPTURE(away);
    StoppedClock().advance(away);
    redis.start();
    CHECK(write(node, "new", "1").answer == Answer::done);
    CHECK(fields_of(node) == Fields{{"kept", "1"}, {"lost", "2"}, {"new", "1"}, {"eve", "1"}});
}

TEST_CASE("an empty primary is left alone while another one has the data") {
    const QuietLog quiet;
    RedisServer replaced;
    RedisServer redis;
    replaced.kill();
    Membership node(hurried_node("a", both(replaced, redis)));
    REQUIRE(own(node));
    CHECK(write(node, "kept", "1").answer == Answer::done);
    replaced.start();
    redis.kill();
    redis.start();
    CHECK(write(node, "new", "1").answer == Answer::done);
    CHECK(fields_of(node) == Fields{{"kept", "1"}, {"new", "1"}});
    CHECK(node.view().redis.address == redis.target().addresses.front().text());
    CHECK(node.view().counters.rewrites == 0);
}

TEST_CASE("a primary that is back with older data is left alone while the newer one answers") {
    const QuietLog quiet;
    const std::vector<std::string> prompt{"--repl-diskless-sync-delay", "0"};
    RedisServer older(prompt), redis(prompt);
    const auto soon = RedisConnection::Clock::now() + test_patience;
    RedisConnection to_older(older.target(), soon);
    ask(to_older, {"REPLICAOF", "127.0.0.1", std::to_string(redis.port())});
    Membership node(hurried_node("a", both(older, redis)));
    REQUIRE(own(node));
    CHECK(write(node, "kept", "1").answer == Answer::done);
    RedisConnection to_redis(redis.target(), soon);
    ask(to_redis, {"SET", "mark", "1"});
    CHECK(to_redis.call({"WAIT", "1", "120000"}, soon).integer == 1);
    ask(to_older, {"REPLICAOF", "NO", "ONE"});
    CHECK(write(node, "new", "1").answer == Answer::done);
    ask(to_redis, {"CLIENT", "KILL", "TYPE", "normal"});
    CHECK(write(node, "newer", "1").answer == Answer::done);
    CHECK(fields_of(node) == Fields{{"kept", "1"}, {"new", "1"}, {"newer", "1"}});
    CHECK(node.view().redis.address == redis.target().addresses.front().text());
}

TEST_CASE("an owner writes again what Redis has lost in a failover to another server and back") {
    const QuietLog quiet;
    const std::vector<std::string> prompt{"--repl-diskless-sync-delay", "0"};
    RedisServer redis(prompt), other(prompt);
    const auto soon = RedisConnection::Clock::now() + test_patience;
    RedisConnection to_redis(redis.target(), soon), to_other(other.target(), soon);
    const auto follow = [&](RedisConnection& replica, const RedisServer& primary) {
        ask(replica, {"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
        std::string info;
        do info = replica.call({"INFO", "replication"}, soon).text;
        while (info_field(info, "master_link_status") != "up");
    };
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    CHECK(write(node, "kept", "1").answer == Answer::done);
    follow(to_other, redis);
    ask(to_other, {"REPLICAOF", "NO", "ONE"});
    CHECK(write(node, "lost", "1").answer == Answer::done);
    follow(to_redis, other);
    ask(to_redis, {"REPLICAOF", "NO", "ONE"});
    SUBCASE("that closes connections") { ask(to_redis, {"CLIENT", "KILL", "TYPE", "normal"}); }
    SUBCASE("that closes no connection") { node.look(); }
    CHECK(write(node, "new", "1").answer == Answer::done);
    CHECK(fields_of(node) == Fields{{"kept", "1"}, {"lost", "1"}, {"new", "1"}});
}

TEST_CASE(
    "a claim that a failover has lost holds, and the owner that was silent before it is fenced") {
    const QuietLog quiet;
    RedisServer redis(in_memory);
    Membership stopped(forgetful_node("a", redis));
    REQUIRE(own(stopped));
    CHECK(write(stopped, "before", "1").answer == Answer::done);
    std::optional<Membership> taker(std::in_place, forgetful_node("b", redis));
    // It beats for most of its lease, and then all is lost from there on.
    const auto soon = RedisConnection::Clock::now() + test_patience;
    RedisConnection beside(redis.target(), soon);
    const std::string self = taker->view().self;
    const auto options = forgetful_node("", redis);
    const Pace pace{options.lease.count(), options.beat.count()};
    taker->await_ownership([&] {  // its second counter is what others go by
        const std::string beats = beside.call({"HGET", "{pg}:beats", self}, soon).text;
        return std::stoul(beats.substr(beats.find(' ') + 1)) > pace.missed_beats();
    });
    save(redis);
    REQUIRE(own(*taker));
    CHECK(write(*taker, "after", "1").answer == Answer::done);
    redis.kill();
    redis.start();

    SUBCASE("if the taker comes back first") {
        CHECK(write(*taker, "again", "1").answer == Answer::done);
        CHECK(write(stopped, "stale", "1").answer == Answer::fenced);
    }
    SUBCASE("if the stopped one comes back first") {
        CHECK(write(stopped, "stale", "1").answer == Answer::fenced);
        CHECK(write(*taker, "again", "1").answer == Answer::done);
    }
    CHECK(fields_of(*taker) == Fields{{"before", "1"}, {"after", "1"}, {"again", "1"}});
    taker->look();
    CHECK(taker->view().partitions.at(9).epoch == 2);
}

TEST_CASE("a node that stands by knows the owner while Redis has lost the claim") {
    const QuietLog quiet;
    RedisServer redis;
    Membership former(hurried_node("a", redis.target()));
    REQUIRE(own(former));
    Membership owner(hurried_node("b", redis.target()));
    REQUIRE(own(owner));
    Membership standby(hurried_node("c", redis.target()));
    const std::string name = former.view().self;
    const auto await_former = [&](bool is_condemned) {
        standby.await_ownership([&] {
            owner.look();
            const ClusterView view = standby.view();
            const auto found = std::ranges::find(view.nodes, name, &ClusterView::Node::incarnation);
            return view.partitions.size() == partitions && found != view.nodes.end() &&
                   found->is_condemned == is_condemned;
        });
        const ClusterView view = standby.view();
        const ClusterView::Node* const found = other_owner(view);
        REQUIRE(found);
        CHECK(found->incarnation == owner.view().self);
        CHECK(view.partitions.at(9).owner == owner.view().self);
        CHECK(view.partitions.at(9).epoch == 2);
    };
    await_former(true);
    for (Partition p = 0; p < partitions; ++p)
        ask(redis, {"SET", partition_key(p, "token"), "1 " + name + ":1"});
    ask(redis, {"HSET", "{pg}:beats", name, "1 1"});
    await_former(false);
}

TEST_CASE("failovers under load lose nothing, and no node claims a partition that has an owner") {
    const QuietLog quiet;
    RedisServer redis(in_memory);
    Membership node(forgetful_node("a", redis));
    REQUIRE(own(node));
    Membership standby(forgetful_node("b", redis));
    std::atomic<bool> ends{false};
    std::atomic<int> acknowledged{0};
    Fields written;
    std::thread standing([&] { standby.await_ownership([&] { return ends.load(); }); });
    std::thread writing([&] {
        for (int i = 0; !ends; ++i) {
            const std::string field = std::to_string(i % 50);
            if (write(node, field, std::to_string(i)).answer != Answer::done) ends = true;
            written[field] = std::to_string(i);
            ++acknowledged;
        }
    });
    const auto await_writes = [&](int more) {
        for (const int begin = acknowledged; acknowledged < begin + more && !ends;)
            std::this_thread::yield();
    };
    for (int failover = 0; failover < 5; ++failover) {
        await_writes(100);
        save(redis);
        await_writes(100);
        redis.kill();
        redis.start();
    }
    await_writes(10);
    ends = true;
    writing.join();
    standing.join();
    CHECK(fields_of(node) == written);
    node.look();
    CHECK(node.view().counters.confirms == 5);
    CHECK(node.view().partitions.at(9).epoch == 1);
}

TEST_CASE("an owner fills a Redis that was emptied") {
    const QuietLog quiet;
    RedisServer redis;
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    Membership standby(hurried_node("b", redis.target()));
    CHECK(write(node, "f", "1").answer == Answer::done);
    bool was_killed = false;
    SUBCASE("by a command") { empty(redis); }
    SUBCASE("by a command, and restarted") {
        empty(redis);
        redis.kill();
        redis.start();
        was_killed = true;
    }
    CAPTURE(was_killed);
    CHECK(write(node, "f", "2").answer == Answer::emptied);
    CHECK(write(node, "f", "2").answer == Answer::emptied);
    CHECK(node.rewrite({row(9, "t", "f", "1"), row(9, "t", "g", "1")}).answer == Answer::done);
    CHECK(node.rewrite({row(global_partition, "bans", "eve", "1")}).answer == Answer::done);
    CHECK(node.rewrite({}).answer == Answer::done);
    CHECK(write(node, "f", "2").answer == Answer::done);
    CHECK(fields_of(node) == Fields{{"f", "2"}, {"g", "1"}, {"eve", "1"}});

    {
        const Looking looks(node);
        CHECK_FALSE(standby.await_ownership(after_two_leases()));
    }
    CHECK(standby.view().birth == node.view().birth);
    CHECK(standby.view().partitions.at(9).owner == node.view().self);
    CHECK(write(node, "f", "3").answer == Answer::done);
}

TEST_CASE("a node that has claimed an emptied Redis gives way to the node with the data") {
    const QuietLog quiet;
    RedisServer redis;
    Membership node(hurried_node("a", redis.target()));
    REQUIRE(own(node));
    CHECK(write(node, "f", "1").answer == Answer::done);
    empty(redis);
    Membership fresh(hurried_node("b", redis.target()));
    REQUIRE(own(fresh));
    CHECK(write(node, "f", "1").answer == Answer::emptied);
    CHECK(node.rewrite({row(9, "t", "f", "1")}).answer == Answer::done);
    CHECK(node.rewrite({}).answer == Answer::done);
    CHECK(write(fresh, "g", "1").answer == Answer::fenced);
    CHECK(fields_of(node) == Fields{{"f", "1"}});
}
