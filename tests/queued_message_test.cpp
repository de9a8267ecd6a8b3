#include "server/session/queued_message.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/session/outbox.h"
#include "tests/support/idle_host.h"

using namespace pulsegate;

namespace {

constexpr std::uint16_t window_of_one = 1;

/// An outbox whose messages are in the store, each with its place in the alphabet as stamp.
struct StoredOutbox {
    StoredOutbox() { totals.journal = &journal; }

    void enqueue(const std::string& letters) {
        for (const char letter : letters) outbox.enqueue(stored(letter));
    }
    Delivery stored(char letter) {
        return {.message = body(letter), .qos = QoS::at_least_once, .owner = owner};
    }
    static MessageRef body(char letter) {
        return std::make_shared<Message>(Message{.topic = "t",
                                                 .payload = std::string(1, letter),
                                                 .properties = {},
                                                 .stamp = static_cast<Stamp>(letter),
                                                 .sender = static_cast<std::uint64_t>(letter) % 2});
    }
    void drop_oldest_bodies(int count) {
        for (; count > 0; --count) outbox.drop_body(totals.for_the_store.front());
    }
    /// Sends and acknowledges what can be sent.
    std::string sent() {
        std::string letters;
        while (const auto* next = outbox.send_next(window_of_one, 0)) {
            letters += next->delivery.message->payload;
            CHECK(next->delivery.owner == owner);
            outbox.on_puback(next->packet_id);
        }
        return letters;
    }
    std::string asked(std::size_t most, std::size_t most_bytes = 1'000'000) const {
        std::string letters;
        for (const Stamp stamp : outbox.bodies_to_read(most, most_bytes))
            letters += static_cast<char>(stamp);
        return letters;
    }
    /// The store has `found` of what was `asked` for. Returns what is lost.
    std::string put(const std::string& asked, const std::string& found) {
        std::vector<MessageRef> bodies;
        for (const char letter : found) bodies.push_back(body(letter));
        std::string lost;
        for (const auto& each : outbox.put_bodies({asked.begin(), asked.end()}, bodies, owner))
            lost += static_cast<char>(each.stamp);
        return lost;
    }

    static constexpr OwnerId owner = 7;
    IdleHost host;
    Journal journal{{0, 1}, host};
    Outbox::Totals totals;
    Outbox outbox{totals};
};

}  // namespace

TEST_CASE("bodies that are left to the store are read before they are sent, in order") {
    StoredOutbox stored;
    stored.enqueue("abcdef");
    const auto bytes = stored.totals.bytes;
    stored.drop_oldest_bodies(4);
    CHECK(stored.totals.bytes == bytes);
    CHECK(stored.totals.bytes_in_memory == bytes / 3);
    CHECK(stored.outbox.awaits_body());
    CHECK(stored.sent().empty());

    CHECK(stored.asked(3) == "abc");
    CHECK(stored.asked(9) == "abcd");
    CHECK(stored.asked(9, 1) == "a");
    CHECK(stored.put("abc", "abc").empty());
    CHECK(stored.sent() == "abc");
    CHECK(stored.put("d", "d").empty());
    CHECK(stored.sent() == "def");
    CHECK(stored.totals.bytes == 0);
    CHECK(stored.totals.bytes_in_memory == 0);
}

TEST_CASE("what the store has not got any more is taken out of the queue") {
    StoredOutbox stored;
    stored.enqueue("abcde");
    stored.drop_oldest_bodies(5);
    CHECK(stored.put("abcd", "bd") == "ac");
    CHECK(stored.sent() == "bd");
    CHECK(stored.put("e", "") == "e");
    CHECK(stored.outbox.idle());
}

TEST_CASE("messages that are dropped while they are read don't come back") {
    StoredOutbox stored;
    stored.enqueue("abcd");
    stored.drop_oldest_bodies(4);
    // The oldest of who has most: of two senders with two each, and one more for the second.
    CHECK(stored.outbox.take_surplus(stored.stored('e'))->stamp == 'a');
    CHECK(stored.put("abcd", "abcd").empty());
    CHECK(stored.sent() == "bcd");
}

TEST_CASE("a body may be left to the store again") {
    StoredOutbox stored;
    stored.enqueue("ab");
    for (int i = 0; i < 3; ++i) {
        stored.drop_oldest_bodies(2);
        CHECK(stored.put("ab", "ab").empty());
    }
    CHECK(stored.sent() == "ab");
}

TEST_CASE("bodies stay in memory that no store has, or that may go back to a group") {
    StoredOutbox stored;
    Delivery not_stored = stored.stored('a');
    not_stored.owner = 0;
    stored.outbox.enqueue(not_stored);
    Delivery of_group = stored.stored('b');
    of_group.share = std::make_shared<const std::string>("$share/g/x");
    stored.outbox.enqueue(of_group);
    CHECK(stored.totals.bytes_in_memory > 0);
    CHECK(stored.totals.for_the_store.empty());
}

TEST_CASE("what was lent goes back, with its body or without it") {
    StoredOutbox inbox;
    inbox.enqueue("abcd");
    inbox.drop_oldest_bodies(1);
    StoredOutbox device;
    Queue lent = inbox.outbox.take_queue();
    CHECK(inbox.totals.bytes_in_memory == 0);
    for (auto& each : lent) each.lend(true, StoredOutbox::owner);
    device.outbox.enqueue(std::move(lent));
    device.enqueue("e");
    CHECK(device.outbox.has_lent());
    CHECK(device.put("a", "a").empty());
    CHECK(device.outbox.send_next(window_of_one, 0)->delivery.owner == StoredOutbox::owner);

    std::string back;
    for (const auto& each : device.outbox.take_lent()) {
        CHECK(each.owner_in(0) == StoredOutbox::owner);
        back += static_cast<char>(each.stamp);
    }
    CHECK(back == "abcd");
    CHECK_FALSE(device.outbox.has_lent());
    CHECK(device.sent() == "e");
}
