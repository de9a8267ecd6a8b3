#include <doctest/doctest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "server/events/event_kind.h"
#include "tests/support/durable_cluster.h"

using namespace pulsegate;

namespace {

BrokerSettings recording(EventKinds kinds = all_event_kinds) {
    BrokerSettings settings;
    settings.recorded_events = kinds;
    return settings;
}

/// What is in the log: the type of each event, and its user.
std::vector<std::string> told(DurableCluster& cluster, EventKinds kinds = all_event_kinds) {
    std::promise<EventPage> answered;
    cluster->store->read_events(
        0, kinds, 10'000, [&](Outcome, EventPage page) { answered.set_value(std::move(page)); });
    std::vector<std::string> found;
    for (const StoredEvent& event : answered.get_future().get().events) {
        const auto member = [&](const std::string& key) {
            const auto at = event.body.find("\"" + key + "\":\"");
            if (at == std::string::npos) return std::string();
            const auto begin = at + key.size() + 4;
            return " " + event.body.substr(begin, event.body.find('"', begin) - begin);
        };
        found.push_back(std::string(name(static_cast<EventKind>(event.kind))) + member("user") +
                        member("to") + member("from") + member("state") + member("cause"));
    }
    return found;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("logins and changes of presence are told in their order") {
    DurableCluster cluster(1, recording());
    PlainClient ann(cluster, "ann");
    ann.connect(true);
    ann.send("e0 00");
    cluster.settle();
    CHECK(told(cluster) ==
          Lines{"login ann", "presence ann online login", "presence ann offline logout"});
}

TEST_CASE("no event is written that has no reader") {
    DurableCluster cluster(1, recording(kinds_of(EventKind::login)));
    PlainClient ann(cluster, "ann");
    ann.connect(true);
    cluster.settle();
    CHECK(told(cluster) == Lines{"login ann"});
    DurableCluster nobody;
    PlainClient bob(nobody, "bob");
    bob.connect(true);
    nobody.settle();
    CHECK(nobody->store->events().last == 0);
}

TEST_CASE("a user that is not back in time after a crash is told offline, and only once") {
    constexpr Millis limit = 90'000;  // of a keepalive of 60 s
    const EventKinds presence = kinds_of(EventKind::presence);
    DurableCluster cluster(2, recording(presence));
    const auto pass = [&](Millis time) {
        cluster->now += time;
        for (unsigned shard = 0; shard < cluster->shards(); ++shard)
            CHECK_FALSE(cluster->broker(shard).tick(cluster->now));
        cluster.settle();
    };
    PlainClient ann(cluster, "ann");
    PlainClient carl(cluster, "carl");
    ann.connect(true);
    cluster.settle();
    carl.connect(true);
    cluster.settle();
    PlainClient bob(cluster, "bob");
    bob.connect(true);  // not committed: neither the event nor the user
    cluster.crash();
    cluster.settle();
    Lines expected{"presence ann online login", "presence carl online login"};
    CHECK(told(cluster) == expected);
    carl.connect(true);
    pass(limit - 1000);
    CHECK(told(cluster) == expected);
    pass(2000);
    expected.push_back("presence ann offline node_lost");
    CHECK(told(cluster) == expected);
    cluster.crash();
    carl.connect(true);
    pass(limit + 1000);
    CHECK(told(cluster) == expected);
}

TEST_CASE("the PUBACK of a message to a disconnected user means that its event is stored") {
    for (const unsigned shards : {1u, 2u}) {
        DurableCluster cluster(shards, recording(kinds_of(EventKind::message_waiting)));
        PlainClient ann(cluster, "ann");
        ann.connect(true);
        cluster.settle();
        ann.take();
        ann.send("32 r s'inbox/bob' k7 'hello'");
        cluster.deliver();
        CHECK(ann.take().empty());
        CHECK(told(cluster).empty());
        cluster.settle();
        CHECK(ann.take() == "40 02 00 07");
        CHECK(told(cluster) == Lines{"message_waiting bob ann"});
        cluster.crash();
        CHECK(told(cluster) == Lines{"message_waiting bob ann"});
    }
}

TEST_CASE("a message to a connected user, or of QoS 0, is no event") {
    DurableCluster cluster(1, recording(kinds_of(EventKind::message_waiting)));
    PlainClient ann(cluster, "ann");
    PlainClient bob(cluster, "bob");
    ann.connect(true);
    bob.connect(false);
    ann.send("32 r s'inbox/bob' k7 'hello'");
    ann.send("30 r s'inbox/carl' 'hello'");
    cluster.settle();
    CHECK(told(cluster).empty());
    bob.lose_connection();
    ann.send("32 r s'inbox/bob' k8 'hello'");
    cluster.settle();
    CHECK(told(cluster) == Lines{"message_waiting bob ann"});
}

TEST_CASE(
    "one sender's messages cause a bounded number of events, and other senders' still cause "
    "theirs") {
    DurableCluster cluster(1, recording(kinds_of(EventKind::message_waiting)));
    PlainClient eve(cluster, "eve");
    PlainClient ann(cluster, "ann");
    eve.connect(true);
    ann.connect(true);
    for (int i = 0; i < 1000; ++i) {
        eve.send("32 r s'inbox/bob' k7 'hello'");
        cluster.settle();
    }
    CHECK(told(cluster).size() == 600);
    CHECK(cluster->sum(&Counters::events_withheld) == 400);
    ann.send("32 r s'inbox/bob' k7 'hello'");
    cluster.settle();
    CHECK(told(cluster).size() == 601);
}
