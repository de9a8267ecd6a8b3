// What needs several shards, or time, played with brokers without a gateway: the test decides when
// messages between shards arrive and when the clock moves.
#include <doctest/doctest.h>

#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/message/topics.h"
#include "server/session/terms/homes.h"
#include "tests/support/broker_cluster.h"
#include "tests/support/caller.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// A name that begins so and is at home on that shard.
std::string at_home(const BrokerCluster& cluster, unsigned shard, std::string name) {
    while (Homes(cluster.shards()).shard_of(name) != shard) name += '+';
    return name;
}

void deliver_all(BrokerCluster& cluster) {
    while (cluster.has_messages()) {
        cluster.deliver(cluster.pairs_with_messages().front());
        cluster.end_turn();
    }
}

/// CONNECT of 5.0 for a session that lasts a minute.
std::string keeps_session(std::string_view user, std::string_view client) {
    return "10 r s'MQTT' 05 80 k10 [ 11 w60 ] s'" + std::string(client) + "' s'" +
           std::string(user) + "'";
}

}  // namespace

TEST_CASE("a will with no lifetime goes to connected subscribers only, and is not retained") {
    BrokerCluster cluster({}, 1);
    Caller there(cluster, "there");
    there.send("10 r s'MQTT' 04 02 k10 s'there'").read_pending();
    there.send("82 r k1 s'w' 00").expect("90 03 k1 00");
    Caller mortal(cluster, "mortal");
    mortal.send("10 r s'MQTT' 05 26 k10 [ ] s'mortal' [ 02 w0 ] s'w' s'bye'").read_pending();
    mortal.lose();
    there.expect("30 r s'w' 'bye'");
    cluster.now += 1;
    there.send("82 r k1 s'w' 00").expect("90 03 k1 00");
}

TEST_CASE("a message that is too large with a topic alias only is sent without") {
    BrokerCluster cluster({}, 1);
    Caller small(cluster, "small");
    small.send("10 r s'MQTT' 05 02 k10 [ 22 k9 27 w30 ] s'small'").read_pending();
    small.send("82 r k1 [ ] s'#' 00").expect("90 r k1 [ ] 00");
    Caller sender(cluster, "sender");
    sender.send("10 r s'MQTT' 04 02 k10 s'sender'").read_pending();
    sender.send("30 r s'a' 'x'*24").send("30 r s'a' 'x'*25");
    small.expect("30 1c s'a' [ ] 'x'*24");
    sender.send("30 r s'a' 'short'").send("30 r s'a' 'x'*24").send("30 r s'a' 'short'");
    small.expect(
        "30 r s'a' [ 23 k1 ] 'short' | 30 1c s'a' [ ] 'x'*24 | 30 r s'' [ 23 k1 ] 'short'");
}

TEST_CASE("unacknowledged messages of a client go to its group, though it has unsubscribed") {
    BrokerCluster cluster({}, 1);
    Caller one(cluster, "one");
    Caller other(cluster, "other");
    one.send("10 r s'MQTT' 04 02 k10 s'one'").read_pending();
    other.send("10 r s'MQTT' 04 02 k10 s'other'").read_pending();
    one.send("82 r k1 s'$share/g/t' 01").expect("90 03 k1 01");
    other.send("32 r s't' k7 'm'").expect("40 02 k7");
    one.expect("32 r s't' k1 'm'");
    other.send("82 r k1 s'$share/g/t' 01").expect("90 03 k1 01");
    one.send("a2 r k2 s'$share/g/t'").expect("b0 02 k2");
    other.expect_nothing();
    one.lose();
    other.expect("32 r s't' k1 'm'");
}

TEST_CASE("a client that comes back completes what it was sent by a group that it has left") {
    BrokerCluster cluster({}, 1);
    for (const bool in_another : {false, true}) {
        CAPTURE(in_another);
        const std::string connect = "10 r s'MQTT' 05 00 k10 [ 11 w60 ] s'one'";
        Caller one(cluster, "one");
        one.send(connect).read_pending();
        if (in_another) one.send("82 r k1 [ ] s'$share/h/other' 01").expect("90 r k1 [ ] 01");
        one.send("82 r k1 [ ] s'$share/g/t' 01").expect("90 r k1 [ ] 01");
        one.send("32 r s't' k7 [ ] 'm'").expect("32 r s't' k1 [ ] 'm' | 40 02 k7");
        one.send("a2 r k2 [ ] s'$share/g/t'").expect("b0 r k2 [ ] 00");
        one.lose();
        Caller again(cluster, "one");
        again.send(connect).expect(
            "20 r 01 00 [ 21 k256 27 w262144 22 k16 ] | 3a r s't' k1 [ ] 'm'");
        again.send("40 02 k1 | e0 r 00 [ 11 w0 ]").expect_nothing();
    }
}

TEST_CASE("a message reaches a group that its client has joined, though it awaits no SUBACK") {
    BrokerCluster cluster({}, 2);
    const unsigned home = Homes(2).shard_of("$share/g/t");
    const auto name = at_home(cluster, 1 - home, "one");
    Caller one(cluster, name);
    one.send("10 r s'MQTT' 04 02 k10 s'" + name + "'").read_pending();
    one.send("82 r k1 s'$share/g/t' 01").send("32 r s't' k7 'm'").expect_nothing();
    deliver_all(cluster);
    one.expect("90 03 k1 01 | 40 02 k7 | 32 r s't' k1 'm'");
}

TEST_CASE("a message that a group hands to a client that has left it goes to the others") {
    BrokerCluster cluster({}, 2);
    const unsigned home = Homes(2).shard_of("$share/g/t");
    const auto name = at_home(cluster, 1 - home, "one");
    const auto other_name = at_home(cluster, home, "other");
    const std::string connect = "10 r s'MQTT' 05 02 k10 [ ] s'" + name + "'";
    for (const bool begins_anew : {false, true}) {
        CAPTURE(begins_anew);
        Caller one(cluster, name);
        Caller again(cluster, name);
        Caller other(cluster, other_name);
        one.send(connect).read_pending();
        other.send("10 r s'MQTT' 04 02 k10 s'" + other_name + "'").read_pending();
        one.send("82 r k1 [ ] s'$share/g/t' 01 s'$share/h/another' 01");
        deliver_all(cluster);
        one.expect("90 r k1 [ ] 01 01");
        other.send("82 r k1 s'$share/g/t' 01").expect("90 03 k1 01");
        other.send("32 r s't' k7 'm'").expect("40 02 k7");  // it is the first member's turn
        REQUIRE(cluster.has_messages());
        if (begins_anew) {
            again.send(connect).read_pending();
            again.send("82 r k1 [ ] s'$share/h/another' 01");
        } else {
            one.send("a2 r k2 [ ] s'$share/g/t'").expect("b0 r k2 [ ] 00");
        }
        deliver_all(cluster);
        one.expect_nothing();
        again.expect(begins_anew ? "90 r k1 [ ] 01" : "");
        other.expect("32 r s't' k1 'm'");
    }
}

TEST_CASE("a group passes over the members of a lost node until they are back") {
    BrokerCluster cluster({}, 2);
    const auto returning_name = at_home(cluster, 0, "returning");
    const auto connect = keeps_session(returning_name, returning_name);
    Caller returning(cluster, returning_name);
    Caller gone(cluster, at_home(cluster, 1, "gone"));
    Caller here(cluster, at_home(cluster, 1, "here"));
    returning.send(connect).read_pending();
    gone.send("10 r s'MQTT' 04 02 k10 s'" + at_home(cluster, 1, "gone") + "'").read_pending();
    here.send("10 r s'MQTT' 04 02 k10 s'" + at_home(cluster, 1, "here") + "'").read_pending();
    returning.send("82 r k1 [ ] s'$share/g/t' 01");
    deliver_all(cluster);
    returning.expect("90 r k1 [ ] 01");
    for (Caller* const each : {&gone, &here}) {
        each->send("82 r k1 s'$share/g/t' 01");
        deliver_all(cluster);
        each->expect("90 03 k1 01");
    }
    Caller sender(cluster, at_home(cluster, 0, "sender"));
    sender.send("10 r s'MQTT' 04 02 k10 s'" + at_home(cluster, 0, "sender") + "'").read_pending();
    sender.send("32 r s't' k7 'unacknowledged'");
    deliver_all(cluster);
    sender.expect("40 02 k7");
    returning.expect("32 r s't' k1 [ ] 'unacknowledged'");

    returning.lose_node();
    gone.lose_node();
    deliver_all(cluster);
    here.expect("32 r s't' k1 'unacknowledged'");
    const auto send = [&](std::string_view text) {
        sender.send("30 r s't' '" + std::string(text) + "'");
        deliver_all(cluster);
    };
    for (const char* const text : {"a", "b", "c"}) send(text);
    here.expect("30 r s't' 'a' | 30 r s't' 'b' | 30 r s't' 'c'");
    returning.expect_nothing();
    gone.expect_nothing();

    Caller back(cluster, returning_name);
    back.send(connect);
    deliver_all(cluster);
    back.read_pending();
    send("d");
    send("e");
    back.expect("30 r s't' [ ] 'd'");
    here.expect("30 r s't' 'e'");
}

TEST_CASE("a group recalls nothing from a member that is back, though its node is out of reach") {
    BrokerCluster cluster({}, 2);
    const unsigned home = Homes(2).shard_of("$share/g/t");
    const auto name = at_home(cluster, 1 - home, "one");
    const auto other_name = at_home(cluster, home, "other");
    Caller one(cluster, name);
    Caller other(cluster, other_name);
    one.send(keeps_session(name, name)).read_pending();
    one.send("82 r k1 [ ] s'$share/g/t' 01");
    deliver_all(cluster);
    one.expect("90 r k1 [ ] 01");
    other.send("10 r s'MQTT' 04 02 k10 s'" + other_name + "'").read_pending();
    other.send("82 r k1 s'$share/g/t' 01").expect("90 03 k1 01");
    other.send("32 r s't' k7 'm'").expect("40 02 k7");  // it is the first member's turn
    deliver_all(cluster);
    one.expect("32 r s't' k1 [ ] 'm'");

    one.lose_node();
    Caller back(cluster, name);
    back.send(keeps_session(name, name)).read_pending();
    back.set_cut_off(true);
    deliver_all(cluster);
    other.expect_nothing();
}

TEST_CASE("a group passes over a member that joins with a connection of a lost node") {
    BrokerCluster cluster({}, 2);
    const auto late_name = at_home(cluster, 0, "late");
    const auto here_name = at_home(cluster, 1, "here");
    Caller late(cluster, late_name);
    Caller here(cluster, here_name);
    late.send("10 r s'MQTT' 04 02 k10 s'" + late_name + "'").read_pending();
    here.send("10 r s'MQTT' 04 02 k10 s'" + here_name + "'").read_pending();
    here.send("82 r k1 s'$share/g/t' 00");
    deliver_all(cluster);
    here.expect("90 03 k1 00");
    late.lose_node();
    late.send("82 r k1 s'$share/g/t' 00");
    deliver_all(cluster);
    for (int i = 0; i < 2; ++i) {
        here.send("30 r s't' 'm'");
        deliver_all(cluster);
        here.expect("30 r s't' 'm'");
    }
}

TEST_CASE("a connection of a lost node leaves room for its user's next one") {
    BrokerSettings settings;
    settings.max_connections_per_user = 1;
    BrokerCluster cluster(settings, 1);
    const auto connect = [](std::string_view client) {
        return "10 r s'MQTT' 05 82 k10 [ ] s'" + std::string(client) + "' s'ann'";
    };
    Caller first(cluster, "ann");
    CHECK(first.send(connect("first")).login_answer() == Reason::success);
    Caller early(cluster, "ann");
    CHECK(early.send(connect("second")).login_answer() == Reason::quota_exceeded);
    first.set_cut_off(true);
    Caller during_break(cluster, "ann");
    CHECK(during_break.send(connect("second")).login_answer() == Reason::quota_exceeded);
    first.lose_node();
    Caller second(cluster, "ann");
    CHECK(second.send(connect("second")).login_answer() == Reason::success);
    Caller again(cluster, "ann");
    CHECK(again.send(connect("first")).login_answer() == Reason::quota_exceeded);
    first.lose();
    REQUIRE(cluster.recorded.size() == 1);
    CHECK(cluster.recorded[0].online);
}

TEST_CASE("a message in an inbox tells its remaining lifetime, and is dropped when that ends") {
    BrokerCluster cluster({}, 2);
    Caller sender(cluster, at_home(cluster, 1, "sender"));
    sender.send("10 r s'MQTT' 05 02 k10 [ ] s'sender'").read_pending();
    const auto bob = at_home(cluster, 0, "bob");
    const auto connect = keeps_session(bob, "phone");
    const auto topic = " s'inbox/" + topic_level(bob) + "' ";
    {
        Caller phone(cluster, bob);
        phone.send(connect).read_pending();
    }
    sender.send("32 r" + topic + "k1 [ 02 w10 ] 'long' | 32 r" + topic + "k2 [ 02 w5 ] 'short'");
    sender.expect("40 02 k1 | 40 02 k2");
    deliver_all(cluster);
    cluster.now += 6000;
    Caller phone(cluster, bob);
    phone.send(connect).expect("20 r 01 00 [ 21 k256 27 w262144 22 k16 ] | 32 r" + topic +
                               "k1 [ 02 w4 26 s'from' s'sender' ] 'long'");
    CHECK(cluster.sum(&Counters::dropped_expired) == 1);
}

TEST_CASE("a message to an inbox wakes its owner's shard, and no other") {
    for (const bool inbox : {true, false}) {
        CAPTURE(inbox);
        BrokerSettings settings;
        settings.inbox = inbox;
        BrokerCluster cluster(settings, 3);
        Caller sender(cluster, at_home(cluster, 0, "sender"));
        sender.send("10 r s'MQTT' 04 02 k10 s'sender'").read_pending();
        cluster.take_forwarded();
        const auto bob = at_home(cluster, 1, "bob");
        const auto inbox_of_bob = "inbox/" + topic_level(bob);
        sender.send("30 r s'" + inbox_of_bob + "' 'm' | 30 r s'" + inbox_of_bob + "/x' 'm'");
        const auto forwarded = cluster.take_forwarded();
        REQUIRE(forwarded.size() == 2);
        using Shards = std::vector<unsigned>;
        CHECK(forwarded[0].spared == (inbox ? Shards{2} : Shards{1, 2}));
        CHECK(forwarded[1].spared == Shards{1, 2});
    }
}

TEST_CASE("access rules are not asked for messages to the user's own inbox") {
    BrokerCluster cluster({}, 1);
    AccessRules rules;
    CHECK(rules.add("allow write inbox/bob").empty());
    cluster.broker(0).use(std::make_shared<const AccessRules>(rules));
    Caller bob(cluster, "bob");
    bob.send("10 r s'MQTT' 05 02 k10 [ ] s'bob'").read_pending();
    bob.send("82 r k1 [ ] s'inbox/bob' 00").expect("90 r k1 [ ] 87");
    Caller eve(cluster, "eve");
    eve.send("10 r s'MQTT' 05 02 k10 [ ] s'eve'").read_pending();
    eve.send("32 r s'inbox/bob' k1 [ ] 'hello'").expect("40 02 k1");
    bob.expect("32 r s'inbox/bob' k1 [ 26 s'from' s'eve' ] 'hello'");
    eve.send("32 r s'inbox/eve' k2 [ ] 'hello'").expect("40 03 k2 87");
}

TEST_CASE("every device that a message to an inbox looks at is work") {
    BrokerCluster cluster({}, 1);
    Caller sender(cluster, "sender");
    sender.send("10 r s'MQTT' 04 02 k10 s'sender'").read_pending();
    std::list<Caller> devices;
    for (int i = 0; i < 100; ++i) {
        auto& device = devices.emplace_back(cluster, "bob");
        device.send(keeps_session("bob", "device" + std::to_string(i))).read_pending();
        if (i % 2 == 0) device.lose();
    }
    const auto before = cluster.broker(0).work();
    sender.send("30 r s'inbox/bob' 'm'");
    CHECK(cluster.broker(0).work() >= before + 100);
}

TEST_CASE(
    "a member that comes back waits for the deliveries under way, and does not do all of them") {
    BrokerSettings settings;
    settings.recipients_a_turn = 2;
    BrokerCluster cluster(settings, 1);
    Broker& broker = cluster.broker(0);
    std::list<Caller> callers;
    for (const char* name : {"first", "second", "third", "fourth", "fifth"}) {
        Caller& member = callers.emplace_back(cluster, name);
        member.send("10 r s'MQTT' 04 00 k10 s'" + std::string(name) + "'").read_pending();
        member.send("82 r k1 s'room/r' 01").expect("90 03 k1 01");
        broker.admin().rooms().add("room/r", name);
    }
    callers.back().lose();
    cluster.in_slices = true;
    callers.front().send("32 r s'room/r' k1 'one'").send("32 r s'room/r' k2 'two'");
    const auto under_way = broker.logins().last_unfinished();
    CHECK(broker.logins().awaits_deliveries("fifth", "fifth", under_way));
    CHECK_FALSE(
        broker.logins().awaits_deliveries("fifth", "fifth", under_way - 2));      // of before them
    CHECK_FALSE(broker.logins().awaits_deliveries("first", "first", under_way));  // it is here
    CHECK_FALSE(broker.logins().awaits_deliveries("stranger", "stranger", under_way));
    Caller stranger(cluster, "fifth");
    stranger.send("10 r s'MQTT' 04 00 k10 s'fifth'").read_pending();
    CHECK(broker.unfinished());
    while (broker.unfinished()) broker.go_on(cluster.now);
    CHECK_FALSE(broker.logins().awaits_deliveries("fifth", "fifth", under_way));
}

TEST_CASE(
    "members of a very large room get its messages in later turns, in order, unless they have "
    "left") {
    BrokerSettings settings;
    settings.recipients_a_turn = 2;
    BrokerCluster cluster(settings, 1);
    cluster.in_slices = true;
    Broker& broker = cluster.broker(0);
    const auto join = [&](Caller& member, const std::string& name) {
        member.send("10 r s'MQTT' 04 02 k10 s'" + name + "'").read_pending();
        member.send("82 r k1 s'room' 00").expect("90 03 k1 00");
    };
    std::list<Caller> room;
    for (const char* name : {"first", "second", "third", "fourth", "fifth"})
        join(room.emplace_back(cluster, name), name);
    Caller& first = room.front();
    Caller& fourth = *std::prev(room.end(), 2);
    Caller& fifth = room.back();
    Caller sender(cluster, "sender");
    sender.send("10 r s'MQTT' 04 02 k10 s'sender'").read_pending();

    sender.send("30 r s'room' 'one'");
    CHECK(broker.unfinished());
    first.expect("30 r s'room' 'one'");
    fifth.expect_nothing();

    sender.send("30 r s'room' 'two'");
    first.expect_nothing();  // otherwise it would overtake the first message
    fourth.lose();
    Caller reborn(cluster, "reborn");  // its session may lie where another one was
    join(reborn, "reborn");
    sender.send("30 r s'room' 'three'");

    broker.go_on(cluster.now);
    fifth.expect_nothing();
    while (broker.unfinished()) broker.go_on(cluster.now);
    first.expect("30 r s'room' 'two' | 30 r s'room' 'three'");
    fourth.expect_nothing();
    fifth.expect("30 r s'room' 'one' | 30 r s'room' 'two' | 30 r s'room' 'three'");
    reborn.expect("30 r s'room' 'three'");
}

TEST_CASE("a delivery is measured from the PUBLISH to the buffer, for connected receivers") {
    BrokerCluster cluster({}, 2);
    const auto near_name = at_home(cluster, 0, "near");
    const auto far_name = at_home(cluster, 1, "far");
    Caller near(cluster, near_name);
    Caller far(cluster, far_name);
    near.send("10 r s'MQTT' 04 02 k10 s'" + near_name + "'").read_pending();
    far.send("10 r s'MQTT' 04 02 k10 s'" + far_name + "'").read_pending();
    near.send("82 r k1 s't' 01").expect("90 03 k1 01");
    far.send("82 r k1 s't' 01").expect("90 03 k1 01");
    near.send("33 r s't' k7 'm'").expect("32 r s't' k1 'm' | 40 02 k7");
    cluster.now += 30;
    deliver_all(cluster);
    far.expect("32 r s't' k1 'm'");
    CHECK(cluster.counters(0).delivery.sum == 0);
    CHECK(cluster.counters(0).delivery.counts[0] == 1);
    CHECK(cluster.counters(1).delivery.sum == 30);
    CHECK(cluster.counters(1).delivery.counts[5] == 1);  // above 25, up to 50

    // What was published long ago, and is retained, is none that is under way.
    cluster.now += 1000;
    far.send("82 r k2 s't' 01").expect("90 03 k2 01 | 33 r s't' k2 'm'");
    CHECK(cluster.counters(1).delivery.sum == 30);
}
