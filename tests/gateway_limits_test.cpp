// Limits hold for all shards together, however their messages cross.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "server/routing/retained.h"
#include "server/session/terms/homes.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/versions.h"

using namespace pulsegate;

namespace {

std::string name_at(unsigned shard, unsigned shards, const std::string& beginning,
                    unsigned number) {
    for (unsigned i = 0;; ++i) {
        const auto name = beginning + std::to_string(number) + "-" + std::to_string(i);
        if (Homes(shards).shard_of(name) == shard) return name;
    }
}

/// As every second on every shard.
void tick(DurableCluster& brokers) {
    brokers->now += 1000;
    for (unsigned shard = 0; shard < brokers->shards(); ++shard)
        while (brokers->broker(shard).tick(brokers->now)) continue;
    brokers.settle();
}

}  // namespace

TEST_CASE(
    "no more messages are retained than max-retained-messages, whatever shards publish them") {
    for (const unsigned shards : {1u, 2u, 3u}) {
        CAPTURE(shards);
        BrokerSettings settings;
        settings.max_retained_messages = 10;
        DurableCluster brokers(shards, settings);
        std::list<PlainClient> clients;
        for (unsigned i = 0; i < 6; ++i) {
            clients.emplace_back(brokers, "c" + std::to_string(i), "c" + std::to_string(i), v5);
            clients.back().connect(true);
        }
        brokers.settle();
        for (PlainClient& client : clients) client.take();
        unsigned number = 0;
        for (int round = 0; round < 10; ++round)
            for (PlainClient& client : clients)  // nothing is delivered between shards meanwhile
                client.send("33 r s't/" + std::to_string(++number) + "' k1 [ ] 'x'");
        brokers.settle();
        unsigned kept = 0;
        for (PlainClient& client : clients)
            for (std::string all = client.take(); !all.empty(); all.erase(0, 15))
                kept += all.starts_with("40 03 00 01 10");
        CHECK(kept == 10);
        for (unsigned shard = 0; shard < shards; ++shard)
            CHECK(brokers->broker(shard).admin().retained().messages() == 10);
        clients.front().send("31 r s't/1' [ ]");  // a deletion
        clients.front().send("33 r s'other' k1 [ ] 'x'");
        clients.front().send("33 r s'another' k1 [ ] 'x'");
        brokers.settle();
        CHECK(clients.front().take() == hex(wire("40 03 k1 10 | 40 03 k1 97")));
        brokers.crash();
        for (unsigned shard = 0; shard < shards; ++shard)
            CHECK(brokers->broker(shard).admin().retained().messages() == 10);
        PlainClient late(brokers, "late", "late", v5);
        late.connect(true);
        brokers.settle();
        late.take();
        late.send("33 r s'late' k1 [ ] 'x'");
        brokers.settle();
        CHECK(late.take() == hex(wire("40 03 k1 97")));
    }
}

TEST_CASE("seats are as many as topics, however messages and deletions cross between shards") {
    std::mt19937 random(4711);
    for (int play = 0; play < 200; ++play) {
        const auto seats = std::make_shared<RetainedSeats>();
        constexpr RetainedSeats::Limits limits{6, 1 << 20, 4, 1 << 20};
        std::list<Retained> shards;
        for (int i = 0; i < 3; ++i) shards.emplace_back(limits, seats);
        std::map<std::pair<int, int>, std::list<MessageRef>> in_transit;
        std::uint64_t stamp = 0;
        const auto shard = [&](int index) -> Retained& {
            return *std::next(shards.begin(), index);
        };
        const auto deliver = [&](std::pair<int, int> pair) {
            auto& queue = in_transit[pair];
            if (queue.empty()) return;
            shard(pair.second).keep(queue.front(), 0);
            queue.pop_front();
        };
        for (int step = 0; step < 200; ++step) {
            const int from = static_cast<int>(random() % 3);
            if (random() % 3 != 0) {
                deliver({static_cast<int>(random() % 3), static_cast<int>(random() % 3)});
                continue;
            }
            auto message = std::make_shared<Message>(
                Message{.topic = std::string(1, static_cast<char>('a' + random() % 10)),
                        .payload = random() % 3 == 0 ? "" : "x",
                        .properties = {},
                        .stamp = ++stamp,
                        .sender = 1 + random() % 3});
            message->not_kept = !shard(from).fits(*message, 0);
            shard(from).keep(message, 0);
            for (int to = 0; to < 3; ++to)
                if (to != from) in_transit[{from, to}].push_back(message);
        }
        for (auto& [pair, queue] : in_transit)
            while (!queue.empty()) deliver(pair);
        in_transit.clear();
        REQUIRE(shard(0).messages() == shard(1).messages());
        REQUIRE(shard(0).messages() == shard(2).messages());
        REQUIRE(shard(0).messages() <= limits.messages);
        // All the places that are left can be taken, and no more.
        for (int i = 0; i < 20; ++i) {
            auto more =
                std::make_shared<Message>(Message{.topic = "more" + std::to_string(i),
                                                  .payload = "x",
                                                  .properties = {},
                                                  .stamp = ++stamp,
                                                  .sender = 100 + static_cast<unsigned>(i)});
            if (!shard(0).fits(*more, 0)) break;
            shard(0).keep(more, 0);
        }
        REQUIRE(shard(0).messages() == limits.messages);
    }
}

TEST_CASE("rooms have no more members than max-room-members, on all shards together") {
    for (const unsigned shards : {1u, 3u}) {
        BrokerSettings settings;
        settings.max_room_members = 10;
        DurableCluster brokers(shards, settings);
        std::size_t added = 0;
        for (unsigned i = 0; i < 30; ++i) {
            const unsigned shard = i % shards;
            const auto user = name_at(shard, shards, "u", i);
            added +=
                brokers->broker(shard).admin().rooms().add("room/x", user) == Rooms::Change::done;
        }
        CHECK(added == 10);
        brokers.settle();
        brokers.crash();
        CHECK(brokers->broker(0).admin().rooms().add("room/y", name_at(0, shards, "late", 0)) ==
              Rooms::Change::no_room);
        CHECK(brokers->broker(0).admin().rooms().remove_some("room/x", 1) == 1);
        CHECK(brokers->broker(0).admin().rooms().add("room/y", name_at(0, shards, "late", 0)) ==
              Rooms::Change::done);
        CHECK(brokers->broker(0).admin().rooms().add("room/y", name_at(0, shards, "late", 1)) ==
              Rooms::Change::no_room);
    }
}

TEST_CASE("as many sessions are kept as persistent-session-quota says, wherever their users live") {
    for (const unsigned shards : {1u, 3u}) {
        BrokerSettings settings;
        settings.persistent_session_quota = 9;
        DurableCluster brokers(shards, settings);
        std::list<PlainClient> clients;
        const auto kept = [&] {
            std::size_t sum = 0;
            for (unsigned shard = 0; shard < shards; ++shard)
                sum += brokers->broker(shard).admin().sessions().disconnected();
            return sum;
        };
        for (unsigned i = 0; i < 20; ++i) {
            // Many on one shard, and few on the others.
            const auto user = name_at(i % 4 == 0 ? shards - 1 : 0, shards, "u", i);
            clients.emplace_back(brokers, user).connect(false);
            clients.back().lose_connection();
            brokers.settle();
            CHECK(kept() == std::min(i + 1, 9u));
        }
    }
}

TEST_CASE("one shard may use all of queue-memory, and makes room when another one needs its part") {
    constexpr unsigned shards = 3;
    BrokerSettings settings;
    settings.queue_memory = 900'000;
    DurableCluster brokers(shards, settings);
    std::list<PlainClient> away;
    for (unsigned shard = 0; shard < 2; ++shard) {
        away.emplace_back(brokers, name_at(shard, shards, "away", shard)).connect(false);
        away.back().send("82 r k1 s'" + std::to_string(shard) + "' 01");
        away.back().lose_connection();
    }
    PlainClient sender(brokers, name_at(2, shards, "sender", 0));
    sender.connect(true);
    const auto before = bytes_of_messages();
    const auto in_memory = [&] {
        static_cast<void>(brokers->take_forwarded());
        return bytes_of_messages() - before;
    };
    const auto publish = [&](const std::string& topic, int messages) {
        for (int i = 0; i < messages; ++i) {
            sender.send("32 r s'" + topic + "' k1 'x'*10000");
            brokers.settle();
        }
        for (int i = 0; i < 2; ++i) tick(brokers);
    };
    publish("0", 70);
    CHECK(in_memory() > 700'000);
    publish("0", 70);
    CHECK(in_memory() > 850'000);
    CHECK(in_memory() <= 900'000);
    publish("1", 25);  // less than a third of it: they stay, and the others go
    CHECK(in_memory() > 850'000);
    CHECK(in_memory() <= 900'000);
    away.back().connect(false);
    brokers.settle();
    CHECK(away.back().take_messages().size() == 25);
    CHECK(brokers->reads == 0);
}

TEST_CASE("memory that queues take on one shard is not counted once more for each other shard") {
    constexpr unsigned shards = 3;
    BrokerSettings settings;
    settings.persistent_session_bytes = 500'000;
    settings.queue_memory = 0;
    DurableCluster brokers(shards, settings);
    PlainClient away(brokers, name_at(0, shards, "away", 0));
    away.connect(false);
    away.send("82 r k1 s'x' 01");
    away.lose_connection();
    PlainClient sender(brokers, name_at(0, shards, "sender", 0));
    sender.connect(true);
    for (int i = 0; i < 9000; ++i) {  // 216,000 bytes without their bodies
        sender.send("32 r s'x' k1 'y'");
        if (i % 100 != 0) continue;
        brokers.settle();
        static_cast<void>(brokers->take_forwarded());  // which keeps their bodies
    }
    brokers.settle();
    static_cast<void>(brokers->take_forwarded());
    for (int i = 0; i < 3; ++i) tick(brokers);
    CHECK(brokers->broker(0).waiting() == 9000);
}

TEST_CASE("large wills are refused beyond a share of all memory, wherever their users live") {
    BrokerSettings settings;
    settings.most_will_bytes = 6000;
    DurableCluster brokers(2, settings);
    const std::string large(2000, 'x');
    const std::string accepted = hex(wire("20 r2 00 00"));
    const std::string refused = hex(wire("20 r2 00 03"));
    std::list<PlainClient> clients;
    const auto answer = [&](unsigned shard, const std::string& will, bool clean = true) {
        const auto number = static_cast<unsigned>(clients.size());
        clients.emplace_back(brokers, name_at(shard, 2, "c", number));
        clients.back().connect(clean, 0, will);
        brokers.settle();
        return clients.back().take();
    };
    CHECK(answer(0, large, false) == accepted);
    CHECK(answer(1, large) == accepted);
    CHECK(answer(0, large) == refused);
    CHECK(answer(1, large) == refused);
    CHECK(answer(0, "small") == accepted);
    CHECK(answer(0, "") == accepted);
    std::next(clients.begin())->send("e0 r0");  // it takes its will back
    brokers.settle();
    CHECK(answer(0, large) == accepted);
    CHECK(answer(1, large) == refused);

    brokers.crash();
    clients.clear();
    CHECK(answer(1, large) == accepted);
    CHECK(answer(0, large) == refused);  // for the first one has a stored session
}
