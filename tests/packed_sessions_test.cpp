// Sessions that are packed while they are away: nobody can tell.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "server/session/client_description.h"
#include "server/session/terms/eviction.h"
#include "server/session/terms/option_bits.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"

using namespace pulsegate;

namespace {

/// What can be packed is packed at the end of each turn.
BrokerSettings packing() {
    BrokerSettings settings;
    settings.packed_after = 0;
    return settings;
}

std::size_t packed(DurableCluster& brokers, unsigned shard = 0) {
    return brokers->broker(shard).admin().sessions().packed();
}

/// All that is known of a session and its user.
std::string state_of(const Session& session) {
    const User& user = session.user;
    std::string text = fmt::format(
        "client {} since {} version {} owner {} expiry {} patience {} id {} kept {} ends {} inbox "
        "{}; user {} since {} seen {} version {} cause {} stayed {} sessions {} here {} kept {};",
        session.client, session.since, static_cast<int>(session.terms.version), session.state.owner,
        session.state.expiry(), session.state.ack_time.patience(),
        session.state.exchanges().last_packet_id(), session.kept(), session.expiry_timer->ends,
        session.is_inbox(), user.name, user.since, user.last_seen(), user.version, name(user.cause),
        static_cast<bool>(user.stayed), static_cast<unsigned>(user.sessions), user.here, user.kept);
    for (const Subscription& each : session.state.subscriptions())
        text += fmt::format(" filter {} {:x} {}", each.filter->text(), option_bits(each.options),
                            each.identifier);
    for (const QueuedMessage& each : session.state.exchanges().outbox().queue())
        text +=
            fmt::format(" message {} {} {} {} {} {}", each.stamp, each.sender,
                        static_cast<unsigned>(each.cost), static_cast<bool>(each.is_exactly_once),
                        static_cast<bool>(each.retain), static_cast<bool>(each.is_stored));
    return text;
}

/// A client of MQTT 3.1.1 with a session and a subscription at QoS 2, that has gone.
void leave_session(DurableCluster& brokers, PlainClient& client, const std::string& filter) {
    arrive(client, filter);
    brokers.settle();
    client.lose_connection();
    brokers.settle();
    brokers->end_turn();
}

void publish(DurableCluster& brokers, const std::string& topic, const std::string& payload,
             const std::string& publisher = "publisher") {
    PlainClient client(brokers, publisher);
    client.connect(true);
    client.send("32 r s'" + topic + "' k1 '" + payload + "'");
    brokers.settle();
    client.send("e0 00");
    brokers.settle();
    brokers->end_turn();
}

void tick(DurableCluster& brokers, Millis time) {
    brokers->now += time;
    for (unsigned shard = 0; shard < brokers->shards(); ++shard)
        while (brokers->broker(shard).tick(brokers->now)) {
        }
    brokers->end_turn();
}

}  // namespace

TEST_CASE("a session that is packed and unpacked is what it was") {
    std::mt19937 random(7);
    const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
    for (int round = 0; round < 60; ++round) {
        CAPTURE(round);
        DurableCluster brokers(1, packing());
        const std::string user(below(5) == 0 ? 250 + below(10) : 1 + below(40), 'u');
        const std::string id(below(5) == 0 ? 250 + below(10) : 1 + below(40), 'c');
        const std::string filter = "t/" + std::string(1 + below(300), 'f');
        const bool subscribes = below(4) != 0;
        const bool has_identifier = below(4) == 0;
        const unsigned messages = subscribes ? below(4) * 6 : 0;
        PlainClient client(brokers, id, user, Version::v5_0);
        client.connect(false);
        const auto options = fmt::format("{:02x}", below(3) | (random() & 0x2c));
        const std::string properties = has_identifier ? "[ 0b 07 ] " : "[ ] ";
        if (subscribes) client.send("82 r k1 " + properties + "s'" + filter + "' " + options);
        brokers->now += below(200'000);
        client.lose_connection();
        brokers.settle();
        for (unsigned i = 0; i < messages; ++i) publish(brokers, filter, "hello");
        const Broker& broker = brokers->broker(0);
        const Session* const session = broker.logins().find(user, id);
        REQUIRE(session);
        const std::size_t queued = session->state.exchanges().outbox().queued();
        const bool is_small = user.size() <= 255 && id.size() <= 255 && queued <= 16 &&
                              !(queued > 0 && has_identifier);
        const auto before = state_of(*session);
        const auto waiting = broker.waiting();
        REQUIRE(packed(brokers) == 0);
        brokers->end_turn();
        CHECK(packed(brokers) == is_small);
        CHECK(broker.admin().sessions().disconnected() == 1);
        CHECK(broker.subscriptions() == subscribes);
        CHECK(broker.waiting() == waiting);
        CHECK(state_of(*broker.logins().find(user, id)) == before);
        CHECK(packed(brokers) == 0);
    }
}

TEST_CASE("a packed client comes back to what waits for it, in order") {
    DurableCluster brokers(1, packing());
    PlainClient client(brokers, "client", "ann");
    leave_session(brokers, client, "x");
    REQUIRE(packed(brokers) == 1);
    publish(brokers, "x", "one");
    publish(brokers, "x", "two");
    CHECK(packed(brokers) == 1);
    publish(brokers, "inbox/ann", "three");
    CHECK(packed(brokers) == 1);
    client.connect(false);
    brokers.settle();
    const auto messages = client.take_messages();
    REQUIRE(messages.size() == 3);
    CHECK(messages[0].text == "one");
    CHECK(messages[1].text == "two");
    CHECK(messages[2].text == "three");
    CHECK(packed(brokers) == 0);
}

TEST_CASE("a client that is packed when the process dies loses nothing") {
    DurableCluster brokers(1, packing());
    std::list<PlainClient> clients;
    for (const char* name : {"a", "b", "c"}) {
        clients.emplace_back(brokers, name);
        leave_session(brokers, clients.back(), std::string("t/") + name);
    }
    publish(brokers, "t/a", "one");
    REQUIRE(packed(brokers) == 3);
    brokers.crash();
    CHECK(packed(brokers) == 3);
    CHECK(brokers->broker(0).waiting() == 1);
    publish(brokers, "t/a", "two");
    publish(brokers, "t/b", "three");
    brokers.crash();
    for (PlainClient& client : clients) client.connect(false);
    brokers.settle();
    const auto of_a = clients.front().take_messages();
    REQUIRE(of_a.size() == 2);
    CHECK(of_a[0].text == "one");
    CHECK(of_a[1].text == "two");
    CHECK(std::next(clients.begin())->take_messages().size() == 1);
    CHECK(clients.back().take_messages().empty());
}

TEST_CASE("a restart packs no user that has more than a record holds") {
    DurableCluster brokers;
    PlainClient plain(brokers, "plain");
    PlainClient phone(brokers, "phone", "ann");
    PlainClient desk(brokers, "desk", "ann");
    PlainClient wide(brokers, "wide");
    PlainClient watcher(brokers, "watcher");
    PlainClient member(brokers, "member");
    PlainClient both(brokers, "both");
    PlainClient same(brokers, "same");
    leave_session(brokers, plain, "x");
    leave_session(brokers, phone, "y");
    leave_session(brokers, desk, "z");
    leave_session(brokers, wide, "w/+");
    leave_session(brokers, watcher, "presence/ann");
    leave_session(brokers, both, "v");
    both.connect(false);
    both.send("82 r k2 s'u' 01");
    leave_session(brokers, same, "x");
    brokers->broker(0).admin().rooms().add("room/r", "member");
    leave_session(brokers, member, "m");
    brokers.settle();
    brokers.crash();
    CHECK(brokers->broker(0).admin().sessions().disconnected() == 8);
    CHECK(packed(brokers) == 1);
    CHECK(brokers->broker(0).subscriptions() == 9);
    publish(brokers, "x", "hello");
    for (PlainClient* each : {&plain, &same}) {
        each->connect(false);
        brokers.settle();
        CHECK(each->take_messages().size() == 1);
    }
}

TEST_CASE("a packed session ends in the same tick as any other") {
    constexpr Millis second = 1000;
    BrokerSettings settings;
    settings.max_session_expiry = 600 * second;
    for (const Millis step : {second, 90 * second, 400 * second}) {
        CAPTURE(step);
        DurableCluster brokers(1, settings);
        std::list<PlainClient> clients;
        for (int i = 0; i < 200; ++i) {
            clients.emplace_back(brokers, "client" + std::to_string(i));
            leave_session(brokers, clients.back(), "t" + std::to_string(i));
            brokers->now += second / 100;
        }
        const auto& sessions = brokers->broker(0).admin().sessions();
        const Tick first = sessions.now() + 601;
        std::size_t most_packed = 0;
        while (sessions.disconnected() > 0) {
            tick(brokers, step);
            most_packed = std::max(most_packed, sessions.packed());
            if (sessions.now() < first) CHECK(sessions.disconnected() == 200);
            if (sessions.now() >= first + 3) CHECK(sessions.disconnected() == 0);
        }
        if (step == second) CHECK(most_packed == 200);
        CHECK(brokers->sum(&Counters::sessions_expired) == 200);
        CHECK(brokers->broker(0).subscriptions() == 0);
    }
}

TEST_CASE("a session that is away for less than a minute, or ends soon, is not packed") {
    DurableCluster brokers;
    PlainClient client(brokers, "client");
    leave_session(brokers, client, "x");
    for (int i = 0; i < 58; ++i) tick(brokers, 1000);
    CHECK(packed(brokers) == 0);
    for (int i = 0; i < 64; ++i) tick(brokers, 1000);
    CHECK(packed(brokers) == 1);
    publish(brokers, "x", "hello");
    CHECK(packed(brokers) == 0);
}

TEST_CASE("the session that has been away for longest ends first, packed or not") {
    BrokerSettings settings = packing();
    settings.persistent_session_quota = 3;
    DurableCluster brokers(1, settings);
    std::list<PlainClient> clients;
    const auto leave = [&](const char* name, const char* filter) {
        clients.emplace_back(brokers, name);
        leave_session(brokers, clients.back(), filter);
    };
    const Broker& broker = brokers->broker(0);
    leave("a", "w/+");  // which is not packed
    leave("b", "x");
    leave("c", "y");
    REQUIRE(broker.logins().find("b", "b"));  // and is unpacked
    leave("d", "z");
    CHECK(packed(brokers) == 3);
    CHECK_FALSE(broker.admin().presence().find("a")->has_device());
    leave("e", "v");
    CHECK_FALSE(broker.logins().find("b", "b"));
    leave("f", "u/#");
    CHECK_FALSE(broker.logins().find("c", "c"));
    CHECK(broker.logins().find("d", "d"));
}

TEST_CASE("pages of users are the same when users are packed or unpacked between them") {
    DurableCluster brokers(1, packing());
    std::list<PlainClient> clients;
    std::vector<std::string> users;
    for (int i = 0; i < 50; ++i) {
        users.push_back("user" + std::to_string(i));
        clients.emplace_back(brokers, users.back());
        leave_session(brokers, clients.back(), i % 3 == 0 ? "w/+" : "t" + std::to_string(i));
    }
    const Presence& presence = brokers->broker(0).admin().presence();
    const auto visit = [&](unsigned seed) {
        std::mt19937 random(seed);
        std::string seen;
        std::optional<PresencePosition> from = PresencePosition{};
        do {
            from = presence.visit(*from, 1 + random() % 7, [&](const User& user) {
                seen += fmt::format("{} {} {} {};", user.name, user.version, user.since,
                                    user.last_seen());
                return true;
            });
            for (auto unpacked = random() % 5; unpacked > 0; --unpacked)
                presence.find(users[random() % users.size()]);
            if (random() % 2 == 0) brokers->end_turn();
        } while (from);
        return seen;
    };
    const auto all = visit(0);
    CHECK(std::ranges::count(all, ';') == 50);
    for (unsigned seed = 1; seed < 50; ++seed) CHECK(visit(seed) == all);
}

TEST_CASE("other shards send what a packed session has subscribed to") {
    DurableCluster brokers(2, packing());
    PlainClient client(brokers, client_at(0, 2, "client"));
    leave_session(brokers, client, "x");
    REQUIRE(packed(brokers, 0) == 1);
    CHECK(brokers->interest(0).may_match(std::string_view("x")));
    publish(brokers, "x", "hello", client_at(1, 2, "publisher"));
    client.connect(false);
    CHECK(brokers->interest(0).may_match(std::string_view("x")));
    brokers.settle();
    CHECK(client.take_messages().size() == 1);
    client.send("a2 r k2 s'x'");
    CHECK_FALSE(brokers->interest(0).may_match(std::string_view("x")));
}

TEST_CASE("asking for the presence of a packed user does not unpack the user") {
    DurableCluster brokers(1, packing());
    PlainClient client(brokers, "client", "ann");
    leave_session(brokers, client, "x");
    REQUIRE(packed(brokers) == 1);
    const Broker& broker = brokers->broker(0);
    const auto described = broker.admin().describe("ann", brokers->now);
    CHECK(packed(brokers) == 1);
    PlainClient watcher(brokers, "watcher");
    watcher.connect(true);
    for (const char* filter : {"presence/ann", "presence/+"}) {
        watcher.send("82 r k1 s'" + std::string(filter) + "' 00");
        brokers.settle();
        const auto messages = watcher.take_messages();
        CHECK(std::ranges::any_of(
            messages, [&](const PlainClient::Message& each) { return each.text == described; }));
    }
    CHECK(packed(brokers) == 1);
    REQUIRE(broker.logins().find("ann", "client"));
    CHECK(broker.admin().describe("ann", brokers->now) == described);
}

TEST_CASE("a packed session can be evicted, and described") {
    DurableCluster brokers(1, packing());
    PlainClient client(brokers, "client", "ann");
    leave_session(brokers, client, "x");
    publish(brokers, "x", "hello");
    REQUIRE(packed(brokers) == 1);
    Broker& broker = brokers->broker(0);
    const auto described = broker.admin().client("ann", "client", brokers->now).clients;
    REQUIRE(described.size() == 1);
    CHECK(described[0].queued == 1);
    CHECK(described[0].filters.size() == 1);
    brokers->end_turn();
    REQUIRE(packed(brokers) == 1);
    const auto evicted = broker.admin().evict(
        {.user = "ann", .ends_sessions = true, .arrived_by = wall_now() + 1000}, brokers->now);
    CHECK(evicted.ended == 1);
    CHECK(broker.admin().sessions().disconnected() == 0);
    CHECK(broker.waiting() == 0);
    CHECK(broker.subscriptions() == 0);
}

TEST_CASE("when sessions take too much memory, the packed user with most of it pays") {
    BrokerSettings settings = packing();
    settings.persistent_session_bytes = 4000;
    DurableCluster brokers(1, settings);
    std::list<PlainClient> clients;
    const auto leave = [&](const std::string& name) {
        clients.emplace_back(brokers, name);
        leave_session(brokers, clients.back(), "t/" + name);
    };
    leave("small");
    leave(std::string(250, 'l'));
    REQUIRE(packed(brokers) == 2);
    for (int i = 0;
         i < 40 && brokers->broker(0).admin().presence().find(std::string(250, 'l'))->has_device();
         ++i) {
        leave("more" + std::to_string(i));
        tick(brokers, 1000);
    }
    CHECK_FALSE(brokers->broker(0).admin().presence().find(std::string(250, 'l'))->has_device());
    CHECK(brokers->broker(0).logins().find("small", "small"));
}
