#include <doctest/doctest.h>

#include <string>

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

TEST_CASE("what waits for the store holds its clients up beyond a bound: a will counts, too") {
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
