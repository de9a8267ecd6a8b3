// What members of shared subscriptions leave to their groups when their sessions end.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "tests/support/durable_group.h"

using namespace pulsegate;

namespace {

/// The helper is away, and the message waits for it; then the worker joins the group and goes.
void leave_to(DurableCluster& brokers, PlainClient& helper, PlainClient& worker,
              std::string_view message) {
    arrive(helper, group);
    brokers.settle();
    helper.lose_connection();
    publish(brokers, client_at(home, shards, "desk"), message);
    arrive(worker, group);
    brokers.settle();
    worker.lose_connection();
    brokers.settle();
    helper.take();
    worker.take();
}

}  // namespace

TEST_CASE("a group's message outlives the session of its member, whenever a crash comes") {
    for (const int committed : {0, 1, 2, 3}) {
        CAPTURE(committed);
        DurableCluster brokers(shards);
        PlainClient helper(brokers, client_at(other, shards, "helper"));
        PlainClient worker(brokers, client_at(home, shards, "worker"));
        leave_to(brokers, helper, worker, "32 r s'x' k1 'hello'");
        helper.connect(true);  // its session ends, and the message is on its way
        if (committed > 0) commit_of(brokers, other);
        if (committed > 1) deliver_all(brokers, other, home);
        if (committed > 2) commit_of(brokers, home);
        brokers.crash();
        worker.connect(false);
        helper.connect(false);
        brokers.settle();
        const bool helper_has_it = helper.take().ends_with(hex("hello"));
        CHECK(helper_has_it == (committed == 0));
        CHECK(worker.take().ends_with(hex("hello")) == (committed > 0));
    }
}

TEST_CASE("a message that a start has given to another member comes once") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    leave_to(brokers, helper, worker, "34 r s'x' k1 'hello'");
    helper.connect(true);
    commit_of(brokers, other);
    brokers.crash();
    brokers.settle();  // it is stored for the worker
    brokers.crash();
    worker.connect(false);
    brokers.settle();
    const auto got = worker.take_messages();
    REQUIRE(got.size() == 1);
    worker.send("50 r2 k" + std::to_string(got[0].packet_id));
    brokers.settle();
    worker.send("70 r2 k" + std::to_string(got[0].packet_id));
    brokers.settle();
    worker.take();
    brokers.crash();
    check_completed(brokers, worker);
}

TEST_CASE("a full store keeps what a member leaves to its group") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    leave_to(brokers, helper, worker, "32 r s'x' k1 'hello'");
    brokers->store_takes_nothing_new = true;
    helper.connect(true);
    brokers.settle();
    brokers->store_takes_nothing_new = false;
    worker.connect(false);
    brokers.settle();
    CHECK(worker.take().ends_with(hex("hello")));
}

TEST_CASE("a full store keeps what a member without a session leaves to its group") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient guest(brokers, client_at(home, shards, "guest"));
    arrive(helper, group);
    brokers.settle();
    helper.lose_connection();
    guest.connect(true);
    guest.send("82 r k1 s'" + std::string(group) + "' 01");
    brokers.settle();
    brokers->store_takes_nothing_new = true;
    publish(brokers, client_at(home, shards, "desk"), "32 r s'x' k1 'hello'");
    REQUIRE(guest.take().ends_with(hex("hello")));
    guest.lose_connection();
    brokers.settle();
    brokers->store_takes_nothing_new = false;
    helper.connect(false);
    brokers.settle();
    CHECK(helper.take().ends_with(hex("hello")));
}

TEST_CASE("after a restart a group's message still goes to another member when its own has ended") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    leave_to(brokers, helper, worker, "34 r s'x' k1 'hello'");
    brokers.crash();
    worker.connect(false);
    brokers.settle();
    CHECK(worker.take() == hex(wire("20 r2 01 00")));  // the helper may come back
    helper.connect(true);
    brokers.settle();
    CHECK(worker.take().ends_with(hex("hello")));
}

TEST_CASE("a group's message that is on its way to a member outlives the member's session") {
    for (const bool is_stored_first : {false, true}) {
        CAPTURE(is_stored_first);
        DurableCluster brokers(shards);
        PlainClient helper(brokers, client_at(other, shards, "helper"));
        PlainClient worker(brokers, client_at(home, shards, "worker"));
        PlainClient desk(brokers, client_at(home, shards, "desk"));
        arrive(helper, group);
        desk.connect(true);
        brokers.settle();
        desk.take();
        desk.send("32 r s'x' k1 'hello'");  // to the helper, the only member
        arrive(worker, group);
        if (is_stored_first) commit_of(brokers, home);
        helper.connect(true);
        commit_of(brokers, other);
        if (!is_stored_first) commit_of(brokers, home);
        REQUIRE(desk.take() == hex(wire("40 r2 k1")));
        brokers.crash();
        worker.connect(false);
        brokers.settle();
        CHECK(worker.take().ends_with(hex("hello")));
    }
}

TEST_CASE(
    "a member leaves its messages to its group if its session was to end with its connection") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"),
                       client_at(other, shards, "helper"), Version::v5_0);
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    join_and_go(brokers, helper);
    publish(brokers, client_at(home, shards, "desk"), "32 r s'x' k1 'hello'");
    helper.connect(false, 0);
    helper.link().stuck = true;
    arrive(worker, group);
    brokers.settle();
    worker.take();
    brokers.crash();
    brokers.settle();
    worker.connect(false);
    brokers.settle();
    CHECK(worker.take().ends_with(hex("hello")));
}

TEST_CASE(
    "a message that was under way at QoS 2 to a member that ended goes to no other member at any "
    "start") {
    DurableCluster brokers(shards);
    const std::string name = client_at(other, shards, "helper");
    PlainClient helper(brokers, name, name, Version::v5_0);
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    join_and_go(brokers, helper);
    publish(brokers, client_at(home, shards, "desk"), "32 r s'x' k1 'first'");
    publish(brokers, client_at(home, shards, "desk"), "34 r s'x' k1 'hello'");
    helper.connect(false, 0);
    brokers.settle();
    REQUIRE(helper.take_messages().size() == 2);
    arrive(worker, group);
    brokers.settle();
    worker.take();
    brokers.crash();
    brokers.settle();
    brokers.crash();
    worker.connect(false);
    brokers.settle();
    const auto got = worker.take_messages();
    REQUIRE(got.size() == 1);
    CHECK(got[0].text == "first");
}

TEST_CASE("a member's own copy of a message does not take its group's with it") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    helper.connect(false);
    helper.send("82 r k1 s'x' 02 s'" + std::string(group) + "' 02");
    brokers.settle();
    helper.lose_connection();
    publish(brokers, client_at(home, shards, "desk"), "32 r s'x' k1 'hello'");
    arrive(worker, group);
    brokers.settle();
    worker.take();
    worker.lose_connection();
    helper.connect(true);
    commit_of(brokers, other);
    brokers.crash();
    worker.connect(false);
    brokers.settle();
    CHECK(worker.take().ends_with(hex("hello")));
}

TEST_CASE("messages of a member that has ended do not stay in the store") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    leave_to(brokers, helper, worker, "32 r s'x' k1 'hello'");
    helper.connect(true);
    brokers.settle();
    // The first owner was the helper.
    SUBCASE("") {}
    SUBCASE("after a restart") {
        CHECK(brokers.crash_and_read().has_owner(OwnerKind::retired, "", "1"));
    }
    brokers->now += 10 * 60'000 + 1000;
    for (unsigned shard : {home, other})
        static_cast<void>(brokers->broker(shard).tick(brokers->now));
    brokers.settle();
    CHECK_FALSE(brokers.crash_and_read().has_owner(OwnerKind::retired, "", "1"));
}

TEST_CASE(
    "the shard's clients may go on publishing after a member has left messages to its group") {
    constexpr unsigned count = 20'001;
    BrokerSettings settings;
    settings.max_queued_messages = count;
    settings.max_queued_bytes = count * 1024;
    DurableCluster brokers(1, settings);
    PlainClient helper(brokers, "helper");
    PlainClient worker(brokers, "worker");
    PlainClient desk(brokers, "desk");
    desk.connect(false);
    arrive(helper, group);
    helper.lose_connection();
    for (unsigned id = 1; id <= count; ++id)
        desk.send("34 r s'x' k" + std::to_string(id) + " 'hello'");
    arrive(worker, group);
    brokers.settle();
    worker.take();
    REQUIRE(brokers->broker(0).waiting() == count);
    helper.connect(true);  // and leaves all of them
    CHECK_FALSE(brokers->broker(0).store_lags());
    brokers.settle();
    CHECK(!worker.take_messages().empty());
}
