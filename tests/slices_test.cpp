// What nobody's packet asks for is done in slices, so that clients are served in between.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "server/shard/shard.h"
#include "tests/support/gateway.h"
#include "tests/support/restarted_world.h"

using namespace pulsegate;

namespace {

constexpr std::uint64_t half_a_turn = work_a_turn / 2;

/// Users that are subscribed to this topic at QoS 0.
std::deque<PlainClient> subscribers(World& world, std::size_t count, const std::string& topic) {
    std::deque<PlainClient> all;
    for (std::size_t i = 0; i < count; ++i) {
        PlainClient& each = all.emplace_back(world.brokers, fmt::format("subscriber{}", i));
        each.connect(true);
        each.send("82 r k1 s'" + topic + "' 00");
        each.take();
    }
    return all;
}

/// Clients that are gone, with wills to `will` that are due in a second.
std::deque<PlainClient> gone_with_wills(World& world, std::size_t count) {
    std::deque<PlainClient> all;
    for (std::size_t i = 0; i < count; ++i) {
        const auto name = fmt::format("gone{}", i);
        PlainClient& each = all.emplace_back(world.brokers, name, name, Version::v5_0);
        each.connect("10 r s'MQTT' 05 06 k60 [ 11 w600 ] s'" + name +
                     "' [ 18 w1 ] s'will' s'gone'");
        each.lose_connection();
    }
    world.brokers.settle();
    return all;
}

void one_shard_only(Config& config) { config.shards = 1; }

/// Connections that are subscribed to this topic at QoS 0.
std::vector<Conversation> receivers_of(const Gateway& gateway, std::size_t count,
                                       const std::string& topic) {
    std::vector<Conversation> all;
    for (std::size_t i = 0; i < count; ++i) {
        Conversation& each = all.emplace_back(gateway);
        each.login(fmt::format("receiver{}", i)).send("82 r k1 s'" + topic + "' 00");
        each.expect("90 03 k1 00");
    }
    return all;
}

/// A connection with a will to `will`, and a keepalive of one second.
Conversation with_will(const Gateway& gateway, std::size_t number) {
    Conversation made(gateway);
    made.send(fmt::format("10 r s'MQTT' 04 06 k1 s'mortal{}' s'will' s'gone'", number));
    made.expect("20 02 00 00");
    return made;
}

}  // namespace

TEST_CASE("due messages of QoS 0 are published one after the other, in several turns") {
    constexpr std::size_t receivers = 100;
    constexpr std::size_t users = 8;
    constexpr std::size_t messages_of_one = 25;
    StoppedClock clock;
    std::uint64_t before = 0;
    std::uint64_t most = 0;
    const Gateway gateway(one_shard_only);
    auto all = receivers_of(gateway, receivers, "x");
    for (std::size_t i = 0; i < users; ++i) {
        Conversation sender(gateway);
        sender.login(fmt::format("sender{}", i));
        for (std::size_t n = 0; n < messages_of_one; ++n) sender.send("30 r s'$delayed/2/x' '!'");
        sender.send("32 r s'$delayed/cancel/none' k1").expect("40 02 k1");  // all are stored
    }
    const auto measure = [&](Shard& shard) {
        before = shard.work();
        shard.guard_by([&] {
            most = std::max(most, shard.work() - before);
            before = shard.work();
        });
    };
    gateway.shards().front()->call(measure).get();
    gateway.pass(clock, 4000);
    for (auto& each : all)
        for (std::size_t n = 0; n < users * messages_of_one; ++n) each.expect("30 r s'x' '!'");
    gateway.shards().front()->call([](Shard& shard) { shard.guard_by({}); }).get();
    CHECK(most < work_a_turn + 3 * receivers);
}

TEST_CASE("a stop publishes due messages of QoS 0 that the store has deleted") {
    World world;
    PlainClient ann(world.brokers, "ann");
    PlainClient bob(world.brokers, "bob");
    ann.connect(true);
    bob.connect(true);
    bob.send("82 r k1 s'x' 00");
    bob.take();
    for (const char* text : {"1", "2", "3", "4", "5"})
        ann.send(fmt::format("30 r s'$delayed/5/x' '{}'", text));
    world.brokers.settle();
    world.wait(6);
    static_cast<void>(world.brokers->broker(0).tick(world.brokers->now));
    world.brokers.commit();
    std::string got;
    for (int step = 0; step < 100 && (got += texts(bob)).empty(); ++step) {
        if (world.brokers->has_messages())
            world.brokers.deliver(world.brokers->pairs_with_messages().front());
        world.brokers.commit();
    }
    CHECK(got == "1 ");
    world.brokers.stop();
    CHECK(texts(bob) == "2 3 4 5 ");
    world.brokers.start();
    bob.connect(true);
    bob.send("82 r k1 s'x' 00");
    bob.take();
    world.pass(2);
    CHECK(texts(bob).empty());
}

TEST_CASE("due wills wait while messages to very many clients are under way") {
    constexpr std::size_t wills = 30;
    BrokerSettings settings;
    settings.recipients_a_turn = 4;
    World world(settings);
    auto all = subscribers(world, 20, "will");
    const auto gone = gone_with_wills(world, wills);
    world.wait(3);
    world.brokers->in_slices = true;
    Broker& broker = world.brokers->broker(0);
    std::size_t most = 0;
    while (broker.tick(world.brokers->now) || broker.unfinished()) {
        most = std::max(most, broker.under_way());
        broker.go_on(world.brokers->now);
    }
    CHECK(most == 2);
    for (auto& each : all) CHECK(each.take_messages().size() == wills);
}

TEST_CASE("due wills take no more than half a turn, and one message") {
    constexpr std::size_t receivers = 100;
    constexpr std::size_t wills = 40;
    World world;
    auto all = subscribers(world, receivers, "will");
    const auto gone = gone_with_wills(world, wills);
    world.wait(3);
    Broker& broker = world.brokers->broker(0);
    std::uint64_t most = 0;
    for (bool more = true; more;) {
        const auto before = broker.work();
        more = broker.tick(world.brokers->now);
        most = std::max(most, broker.work() - before);
    }
    CHECK(most < half_a_turn + 2 * receivers);
    for (auto& each : all) CHECK(each.take_messages().size() == wills);
}

TEST_CASE("silent connections with wills end a few at a time") {
    constexpr std::size_t receivers = 100;
    constexpr std::size_t mortals = 40;
    StoppedClock clock;
    const Gateway gateway(one_shard_only);
    auto all = receivers_of(gateway, receivers, "will");
    std::vector<Conversation> silent;
    for (std::size_t i = 0; i < mortals; ++i) silent.push_back(with_will(gateway, i));
    gateway.settle();
    std::uint64_t work = 0;
    const auto advance = [&](Shard& shard) {
        clock.advance(3000);  // here, or the shard's own tick could end them first
        const auto before = shard.work();
        shard.advance();
        work = shard.work() - before;
    };
    gateway.shards().front()->call(advance).get();
    CHECK(work >= half_a_turn);
    CHECK(work < half_a_turn + 3 * receivers);
    for (auto& each : all)
        for (std::size_t i = 0; i < mortals; ++i) each.expect("30 r s'will' 'gone'");
}
