#include "server/session/state/queue_shares.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>

#include "tests/support/lobby.h"

using namespace pulsegate;

namespace {

QueuedMessage message(Stamp stamp, QueueShares::Sender sender, std::uint32_t cost) {
    return {QueuedHead{.stamp = stamp,
                       .sender = sender,
                       .cost = cost & 0xfff'ffffu,
                       .is_exactly_once = false,
                       .retain = false,
                       .is_stored = false},
            0};
}

/// What QueueShares finds, by looking at all messages.
std::optional<Stamp> expected(const Queue& queue, QueueShares::Sender sender, std::size_t more) {
    std::map<QueueShares::Sender, std::size_t> bytes{{sender, more}};
    for (const QueuedMessage& each : queue) bytes[each.sender] += each.cost;
    QueueShares::Sender largest = sender;
    for (const auto& [each, sum] : bytes)
        if (sum > bytes[largest] || (sum == bytes[largest] && each > largest)) largest = each;
    for (const QueuedMessage& each : queue)
        if (each.sender == largest) return each.stamp;
    return std::nullopt;
}

}  // namespace

TEST_CASE("the oldest message of the sender with most is found in any queue") {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto senders = static_cast<unsigned>(1 + random() % 6);
        Queue queue;
        QueueShares shares(queue);
        Stamp last = 0;
        for (int step = 0; step < 200; ++step) {
            const auto sender = static_cast<QueueShares::Sender>(random() % senders);
            if (random() % 5 != 0) {
                const bool is_late = random() % 4 == 0 && last > 3;
                queue.push_back(message(is_late ? last - random() % 4 : last + 1, sender,
                                        static_cast<std::uint32_t>(1 + random() % 3)));
                last = std::max(last, queue.back().stamp);
                shares.add(std::prev(queue.end()));
                auto place = std::prev(queue.end());
                while (place != queue.begin() && std::prev(place)->stamp > queue.back().stamp)
                    --place;
                queue.splice(place, queue, std::prev(queue.end()));
                shares.order_last(sender);
            } else if (!queue.empty()) {
                const auto any = std::next(queue.begin(), random() % queue.size());
                shares.remove(any);
                queue.erase(any);
            }
            const std::size_t more = random() % 4;
            const auto found = shares.surplus(sender, more);
            const auto stamp = found ? std::optional((*found)->stamp) : std::nullopt;
            REQUIRE(stamp == expected(queue, sender, more));
        }
    }
}

TEST_CASE("a message to a full queue costs the same, however many have sent what waits in it") {
    constexpr std::size_t most = 1000;
    BrokerSettings settings;
    settings.max_queued_messages = most;
    Lobby lobby(settings);
    Broker& home = lobby.brokers->broker(0);
    lobby.away.send("82 r k1 s'x' 01");
    lobby.part();
    std::uint64_t sender = 1;
    const auto publish_from_all = [&] {
        for (std::size_t count = 0; count < most; ++count) {
            Message message;
            message.topic = "x";
            message.qos = QoS::at_least_once;
            message.sender = sender++;
            home.admin().publish(
                std::move(message), [](const Published&) {}, lobby.brokers->now);
        }
    };
    publish_from_all();
    const auto work = home.work();
    publish_from_all();
    CHECK(lobby.brokers->sum(&Counters::dropped_queue_full) == most);
    CHECK(home.work() - work < 20 * most);
}
