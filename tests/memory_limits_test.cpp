#include <doctest/doctest.h>

#include <list>
#include <string>
#include <string_view>

#include "tests/support/durable_cluster.h"

using namespace pulsegate;

namespace {

constexpr std::size_t client_memory = 64 * 1024;

BrokerSettings limited() {
    BrokerSettings settings;
    settings.max_client_memory = client_memory;
    return settings;
}

std::string long_topic(int number) {
    const std::string digits = std::to_string(number);
    return digits + std::string(1000 - digits.size(), 'x');
}

const std::string accepted = hex(wire("20 r2 01 00"));
const std::string refused = hex(wire("20 r2 00 03"));

/// A client with a stored session and so many subscriptions, of 1,280 bytes each as they count, has
/// gone.
PlainClient subscribed(DurableCluster& brokers, int subscriptions) {
    PlainClient client(brokers, "p");
    client.connect(false);
    for (int i = 0; i < subscriptions; ++i) client.send("82 r k1 s'" + long_topic(i) + "' 00");
    brokers.settle();
    client.lose_connection();
    brokers.settle();
    return client;
}

}  // namespace

TEST_CASE("max-client-memory counts what a resumed session keeps beside a new will") {
    DurableCluster brokers(1, limited());
    PlainClient client = subscribed(brokers, 51);
    client.connect(false, 86'400, long_topic(0));
    CHECK(client.take() == refused);
    client.connect(false);
    CHECK(client.take() == accepted);
    REQUIRE(client.link().session);
    CHECK(client.link().session->kept() == 51 * 1280);
    // A clean start drops the subscriptions.
    client.connect(true, 0, long_topic(0));
    brokers.settle();
    CHECK(client.take() == hex(wire("20 r2 00 00")));
    CHECK(client.link().session->kept() == 1280);
}

TEST_CASE("a new will takes the place of the one before it, and is not counted beside it") {
    DurableCluster brokers(1, limited());
    PlainClient client = subscribed(brokers, 50);
    for (int login = 0; login < 3; ++login) {
        client.connect(false, 86'400, long_topic(0));
        brokers.settle();
        CHECK(client.take() == accepted);
        CHECK(client.link().session->kept() == 51 * 1280);
    }
}

TEST_CASE("a large will is refused while memory is scarce; a small one, and none, are not") {
    DurableCluster brokers;
    brokers->memory = MemoryState::scarce;
    PlainClient client(brokers, "p");
    client.connect(true, 0, long_topic(0));
    CHECK(client.take() == refused);
    client.connect(true, 0, "last/words");
    CHECK(client.take() == hex(wire("20 r2 00 00")));
    client.connect(true);
    CHECK(client.take() == hex(wire("20 r2 00 00")));
    brokers->memory = MemoryState::plenty;
    client.connect(true, 0, long_topic(0));
    CHECK(client.take() == hex(wire("20 r2 00 00")));
}

TEST_CASE("max-client-memory counts a place for each topic alias of the client") {
    BrokerSettings settings = limited();
    settings.topic_alias_maximum = 65'535;
    DurableCluster brokers(1, settings);
    PlainClient client(brokers, "p", "p", Version::v5_0);
    client.connect(true);
    client.send("30 r s't' [ 23 k1000 ] 'm'");
    CHECK_FALSE(client.link().ending);
    CHECK(client.link().session->kept() > 1000 * sizeof(std::string));
    client.send("30 r s't' [ 23 k65535 ] 'm'");
    REQUIRE(client.link().ending);
    CHECK(client.link().ending->reason == Reason::quota_exceeded);
}

TEST_CASE("topic aliases of the gateway take at most half of max-client-memory") {
    constexpr int topics = 200;
    BrokerSettings settings = limited();
    settings.topic_alias_maximum = 65'535;
    DurableCluster brokers(1, settings);
    PlainClient client(brokers, "p", "p", Version::v5_0);
    const auto connect = [&] {
        client.connect(std::string_view("10 r s'MQTT' 05 00 k60 [ 11 w1000 22 k65535 ] s'p'"));
    };
    connect();
    brokers.settle();
    client.send("82 r k1 [ ] s'#' 00");
    brokers.settle();
    client.take();
    const std::size_t before = client.link().session->kept();
    for (const char* text : {"new", "known"}) {
        for (int i = 0; i < topics; ++i)
            client.send("30 r s'" + long_topic(i) + "' [ ] '" + text + "'");
        CHECK(client.take_messages().size() == topics);
    }
    std::size_t aliases = 0;
    client.link().session->aliases->for_each_outgoing([&](const auto&, auto) { ++aliases; });
    const std::size_t kept = client.link().session->kept();
    CHECK(aliases > 10);
    CHECK(kept > before + aliases * long_topic(0).size());
    CHECK(kept <= client_memory / 2);
    client.lose_connection();
    connect();
    brokers.settle();
    CHECK(client.link().session->kept() == before);
}

TEST_CASE("a user with many stored sessions gets no other one while memory is scarce") {
    DurableCluster brokers;
    std::list<PlainClient> clients;
    const auto is_let_in = [&](const std::string& client, bool clean = false) {
        clients.emplace_back(brokers, client, "ann").connect(clean);
        brokers.settle();
        return clients.back().take() != refused;
    };
    for (int number = 0; number < 15; ++number) REQUIRE(is_let_in(std::to_string(number)));
    clients.front().lose_connection();
    brokers->memory = MemoryState::scarce;
    CHECK(is_let_in("15"));
    CHECK_FALSE(is_let_in("16"));
    CHECK(is_let_in("16", true));
    CHECK_FALSE(is_let_in("16"));
    CHECK(is_let_in("0"));  // back in its session
    brokers->memory = MemoryState::used_up;
    const auto first_of = [&](const char* user) {
        clients.emplace_back(brokers, "phone", user).connect(false);
        brokers.settle();
        return clients.back().take() != refused;
    };
    CHECK(first_of("bob"));
    CHECK_FALSE(first_of("ann"));
    brokers->memory = MemoryState::plenty;
    CHECK(is_let_in("17"));
}

TEST_CASE("a 3.1.1 client leaves more QoS 2 messages unreleased only while there is room") {
    BrokerSettings settings;
    settings.receive_maximum = 2;
    DurableCluster brokers(1, settings);
    PlainClient client(brokers, "p");
    client.connect(false);
    const auto publish = [&](int packet_id) {
        client.send("34 r s'x' k" + std::to_string(packet_id) + " 'm'");
        brokers.settle();
    };
    for (int packet_id = 1; packet_id <= 4; ++packet_id) publish(packet_id);
    brokers->memory = MemoryState::scarce;
    publish(4);  // again
    CHECK_FALSE(client.link().ending);
    publish(5);
    REQUIRE(client.link().ending);
    CHECK(client.link().ending->reason == Reason::quota_exceeded);
}

TEST_CASE("QoS 2 identifiers that a client has left unreleased count as memory of its session") {
    for (const int messages : {1, 1000}) {
        BrokerSettings settings;
        settings.persistent_session_bytes = 2000;
        DurableCluster brokers(1, settings);
        PlainClient client(brokers, "p");
        client.connect(false);
        for (int i = 1; i <= messages; ++i) client.send("34 r s'x' k" + std::to_string(i) + " 'm'");
        brokers.settle();
        client.lose_connection();
        while (brokers->broker(0).tick(brokers->now += 1000)) continue;
        client.connect(false);
        brokers.settle();
        CHECK((client.take() == accepted) == (messages == 1));
    }
}

TEST_CASE("a client is refused while too much waits for the store, wills included") {
    BrokerSettings settings;
    settings.most_unstored_bytes = 1000;
    DurableCluster brokers(1, settings);
    PlainClient client(brokers, "p");
    client.connect(false, 86'400, long_topic(0));
    brokers.deliver();
    CHECK(brokers->broker(0).store_lags());
    PlainClient other(brokers, "q");
    other.connect(false, 86'400, long_topic(0));
    CHECK(other.take() == refused);
    brokers.settle();
    CHECK_FALSE(brokers->broker(0).store_lags());
}

TEST_CASE("while the store fails, the data that clients add to it is bounded") {
    BrokerSettings settings;
    settings.most_unstored_bytes = 4000;
    DurableCluster brokers(1, settings);
    const Journal& journal = brokers->broker(0).admin().journal();
    PlainClient stored(brokers, "stored");
    stored.connect(false);
    PlainClient sender(brokers, "sender", "sender", Version::v5_0);
    sender.connect(true);
    brokers.settle();
    stored.take();

    brokers.disk().fail_at(brokers.disk().steps() + 1, FaultyDisk::Fault::full, 3);
    sender.send("31 r s'first' [ ] 'x'");
    brokers.deliver();
    brokers.commit();
    brokers.deliver();
    REQUIRE(journal.is_refused());
    for (int i = 0; i < 100 && !journal.is_refused_much(); ++i) {
        sender.send("31 r s'topic/" + std::to_string(i) + "' [ ] 'x'");
        brokers.deliver();
    }
    REQUIRE(journal.is_refused_much());
    const std::size_t bytes = journal.refused_bytes();
    sender.send("31 r s'last' [ ] 'x'");
    stored.send("82 r k1 s'last' 00");
    CHECK(stored.take() == hex(wire("90 r k1 80")));
    brokers.deliver();
    CHECK(journal.refused_bytes() == bytes);

    PlainClient newcomer(brokers, "newcomer");
    const std::string_view retained = "10 r s'MQTT' 04 26 k60 s'newcomer' s'will' s'gone'";
    newcomer.connect(retained);
    CHECK(newcomer.take() == refused);
    newcomer.connect(true, 0, "will");
    CHECK(newcomer.take() == hex(wire("20 r2 00 00")));
    std::list<PlainClient> users;
    for (int i = 0; i < 100 && !journal.is_refused_too_much(); ++i) {
        PlainClient& user = users.emplace_back(brokers, "user" + std::to_string(i));
        user.connect(true);
        brokers.deliver();
        user.lose_connection();
        brokers.deliver();
    }
    REQUIRE(journal.is_refused_too_much());
    PlainClient late(brokers, "late");
    late.connect(true);
    CHECK(late.take() == refused);

    brokers->now += 1000;
    static_cast<void>(brokers->broker(0).tick(brokers->now));
    brokers.settle();
    CHECK_FALSE(journal.is_refused());
    CHECK(journal.refused_bytes() == 0);
    late.connect(true);
    CHECK(late.take() == hex(wire("20 r2 00 00")));
}
