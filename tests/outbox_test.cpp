#include "server/session/state/outbox.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace pulsegate;

namespace {

using Effect = Outbox::Effect;

constexpr std::uint16_t window = 3;
constexpr OwnerId no_owner = 0;

Delivery delivery(const std::string& payload, QoS qos = QoS::at_least_once) {
    return {.message = std::make_shared<Message>(
                Message{.topic = "x", .payload = payload, .properties = {}}),
            .qos = qos};
}

Delivery shared(const std::string& payload, QoS qos = QoS::at_least_once) {
    Delivery made = delivery(payload, qos);
    made.share = std::make_shared<const std::string>("$share/g/x");
    return made;
}

/// "hello#7": payload and packet identifier; "hello#7!" with DUP.
std::string text(const Outbox::InFlight* next) {
    if (!next) return "nothing";
    return next->delivery.message->payload + '#' + std::to_string(next->packet_id) +
           (next->again ? "!" : "");
}

std::vector<std::string> payloads(const std::vector<Delivery>& deliveries) {
    std::vector<std::string> found;
    for (const Delivery& each : deliveries) found.push_back(each.message->payload);
    return found;
}

}  // namespace

TEST_CASE("a delivery comes out of the queue as it went in") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    Delivery put = shared("hello");
    put.retain = true;
    put.identifiers = {1, 2};
    outbox.enqueue(put);
    const auto back = outbox.take_surplus(0, put.cost());
    REQUIRE(back);
    const Delivery delivery = back->delivery(0);
    CHECK(delivery.message->payload == "hello");
    CHECK(delivery.qos == QoS::at_least_once);
    CHECK(delivery.retain);
    CHECK(delivery.identifiers == std::vector<std::uint32_t>{1, 2});
    CHECK(*delivery.share == "$share/g/x");
    CHECK_FALSE(outbox.take_surplus(0, put.cost()));
    CHECK(outbox.idle());
}

TEST_CASE("the oldest leaves the queue first, and what all queues take is known") {
    Outbox::Totals totals;
    std::mt19937 random(1);
    std::vector<std::unique_ptr<Outbox>> outboxes;
    for (int i = 0; i < 5; ++i) outboxes.push_back(std::make_unique<Outbox>(totals));
    std::vector<std::deque<std::string>> model(outboxes.size());
    for (int step = 0; step < 5000; ++step) {
        const auto which = random() % outboxes.size();
        auto& outbox = outboxes[which];
        auto& expected = model[which];
        const auto action = random() % 20;
        if (action == 0) {
            outbox = std::make_unique<Outbox>(totals);
            expected.clear();
        } else if (action < 11) {
            outbox->enqueue(delivery(std::to_string(step)));
            expected.push_back(std::to_string(step));
        } else {
            const auto oldest = outbox->take_surplus(0, 0);
            REQUIRE(oldest.has_value() == !expected.empty());
            if (!oldest) continue;
            REQUIRE(oldest->body->message->payload == expected.front());
            expected.pop_front();
        }
        std::size_t messages = 0;
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < outboxes.size(); ++i) {
            REQUIRE(outboxes[i]->queued() == model[i].size());
            messages += model[i].size();
            bytes += outboxes[i]->queued_bytes();
        }
        REQUIRE(totals.messages == messages);
        REQUIRE(totals.bytes == bytes);
    }
    outboxes.clear();
    CHECK(totals.messages == 0);
    CHECK(totals.bytes == 0);
}

TEST_CASE("in a full queue, the sender with most loses messages first, and no other sender") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    const auto message = [](std::uint64_t sender, std::string payload) {
        return Delivery{.message = std::make_shared<Message>(Message{.topic = "inbox/bob",
                                                                     .payload = std::move(payload),
                                                                     .properties = {},
                                                                     .sender = sender}),
                        .qos = QoS::at_least_once};
    };
    const auto surplus = [&](const Delivery& next) {
        const auto taken = outbox.take_surplus(SenderShares::sender(*next.message), next.cost());
        return taken ? taken->body->message->payload : "the next one";
    };
    outbox.enqueue(message(1, "important"));
    outbox.enqueue(message(2, "flood 1"));
    outbox.enqueue(message(3, "also important"));
    outbox.enqueue(message(2, "flood 2"));
    CHECK(surplus(message(2, "flood 3")) == "flood 1");
    outbox.enqueue(message(2, "flood 3"));
    CHECK(surplus(message(4, "from another")) == "flood 2");
    CHECK(surplus(message(5, std::string(1000, '!'))) == "the next one");
    CHECK(surplus(message(3, "more")) == "also important");
    CHECK(outbox.queued() == 2);
}

TEST_CASE("no more is in flight than the window takes, and an acknowledgement makes room") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    CHECK_FALSE(outbox.must_wait(window));
    CHECK(text(&outbox.send(delivery("a"), 0)) == "a#1");
    CHECK(text(&outbox.send(delivery("b"), 1)) == "b#2");
    CHECK(text(&outbox.send(delivery("c"), 2)) == "c#3");
    REQUIRE(outbox.must_wait(window));
    outbox.enqueue(delivery("d"));
    CHECK_FALSE(outbox.send_next(window, 3, no_owner));
    CHECK(outbox.on_puback(2) == Effect::settled);
    CHECK(text(outbox.send_next(window, 3, no_owner)) == "d#4");
    CHECK_FALSE(outbox.send_next(window, 4, no_owner));
    CHECK(totals.messages == 0);
}

TEST_CASE("nothing new goes ahead of what waits") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    outbox.enqueue(delivery("first"));
    CHECK(outbox.must_wait(window));
    CHECK(text(outbox.send_next(window, 0, no_owner)) == "first#1");
    CHECK_FALSE(outbox.must_wait(window));
}

TEST_CASE("after an interruption everything is sent again in its order, before what waits") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    outbox.send(delivery("a"), 0);
    outbox.send(delivery("b", QoS::exactly_once), 1);
    outbox.send(delivery("c", QoS::exactly_once), 2);
    CHECK(outbox.on_pubrec(2, false) == Effect::release);
    outbox.enqueue(delivery("d"));
    outbox.interrupt();

    std::vector<std::uint16_t> released;
    outbox.for_each_released([&](std::uint16_t packet_id) { released.push_back(packet_id); });
    CHECK(released == std::vector<std::uint16_t>{2});
    CHECK(text(outbox.send_next(window, 3, no_owner)) == "a#1!");

    SUBCASE("also if it is interrupted again in between") { outbox.interrupt(); }
    SUBCASE("also if it is not") {
        CHECK(text(outbox.send_next(window, 3, no_owner)) == "c#3!");
        CHECK(outbox.on_pubcomp(2) == Effect::settled);
        CHECK(text(outbox.send_next(window, 3, no_owner)) == "d#4");
        return;
    }
    CHECK(text(outbox.send_next(window, 3, no_owner)) == "a#1!");
    CHECK(text(outbox.send_next(window, 3, no_owner)) == "c#3!");
}

TEST_CASE("an acknowledgement of the other QoS, or one too early, is misplaced") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    outbox.send(delivery("one", QoS::at_least_once), 0);
    outbox.send(delivery("two", QoS::exactly_once), 1);
    CHECK(outbox.on_pubrec(1, false) == Effect::misplaced);
    CHECK(outbox.on_pubcomp(1) == Effect::misplaced);
    CHECK(outbox.on_puback(2) == Effect::misplaced);
    CHECK(outbox.on_pubcomp(2) == Effect::misplaced);
    CHECK(outbox.on_pubrec(2, false) == Effect::release);
    CHECK(outbox.on_puback(2) == Effect::misplaced);
    CHECK(outbox.on_pubrec(2, false) == Effect::release);  // PUBREC again: PUBREL again
    CHECK(outbox.on_pubcomp(2) == Effect::settled);
    CHECK(outbox.on_puback(1) == Effect::settled);
    CHECK(outbox.on_puback(1) == Effect::unknown);
    CHECK(outbox.on_pubrec(2, false) == Effect::unknown);
    CHECK(outbox.on_pubcomp(2) == Effect::unknown);
    CHECK(outbox.idle());
}

TEST_CASE("a PUBREC with an error ends the exchange") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    outbox.send(delivery("two", QoS::exactly_once), 0);
    CHECK(outbox.on_pubrec(1, true) == Effect::settled);
    CHECK(outbox.idle());
}

TEST_CASE("a discarded message is not in flight any more, and its identifier is used up") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    const auto packet_id = outbox.send(delivery("too large"), 0).packet_id;
    outbox.discard(packet_id);
    CHECK(outbox.idle());
    CHECK(text(&outbox.send(delivery("next"), packet_id)) == "next#2");
}

TEST_CASE("packet identifiers go round without meeting one that is in flight") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    outbox.send(delivery("stays", QoS::exactly_once), 9);  // 10
    std::uint16_t last = 10;
    std::uint16_t wraps = 0;
    for (int i = 0; i < 140'000; ++i) {
        const auto next = outbox.send(delivery("goes"), last).packet_id;
        REQUIRE(next != 0);
        REQUIRE(next != 10);
        REQUIRE(next == (last == 65'535 ? 1 : last == 9 ? 11 : last + 1));
        wraps = static_cast<std::uint16_t>(wraps + (next < last));
        last = next;
        REQUIRE(outbox.on_puback(next) == Effect::settled);
    }
    CHECK(wraps == 2);
}

TEST_CASE("messages of a shared subscription can be taken out, and the rest stays in order") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    CHECK_FALSE(outbox.has_shared());
    outbox.send(shared("sent"), 0);
    outbox.send(delivery("own"), 1);
    outbox.interrupt();
    outbox.enqueue(delivery("waits"));
    outbox.enqueue(shared("waits too"));
    REQUIRE(outbox.has_shared());
    std::vector<bool> was_sent;
    const auto taken = outbox.take_if(no_owner, [&](const Delivery& each, bool sent) {
        if (each.share) was_sent.push_back(sent);
        return each.share != nullptr;
    });
    CHECK(payloads(taken) == std::vector<std::string>{"sent", "waits too"});
    CHECK(was_sent == std::vector<bool>{true, false});
    CHECK(totals.messages == 1);
    CHECK(text(outbox.send_next(window, 2, no_owner)) == "own#2!");
    CHECK(text(outbox.send_next(window, 2, no_owner)) == "waits#3");
}

TEST_CASE("messages that were sent again are taken out before those that were not") {
    Outbox::Totals totals;
    Outbox outbox(totals);
    for (std::uint16_t last = 0; last < 3; ++last)
        outbox.send(shared(std::string(1, static_cast<char>('a' + last))), last);
    outbox.interrupt();
    outbox.enqueue(shared("d"));
    CHECK(text(outbox.send_next(window, 3, no_owner)) == "a#1!");
    CHECK(text(outbox.send_next(window, 3, no_owner)) == "b#2!");
    const auto taken = outbox.take_if(no_owner, [](const Delivery&, bool) { return true; });
    CHECK(payloads(taken) == std::vector<std::string>{"a", "b", "c", "d"});
}
