#include "server/session/state/queued_message.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/session/state/outbox.h"
#include "tests/support/idle_host.h"

using namespace pulsegate;

namespace {

constexpr std::uint16_t window_of_one = 1;

/// An outbox with messages in the store, each with its place in the alphabet as stamp.
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
        for (; count > 0; --count) totals.bodies.leave_oldest_to_store();
    }
    /// Sends and acknowledges what can be sent.
    std::string sent() {
        std::string letters;
        while (const auto* next = outbox.send_next(window_of_one, 0, owner)) {
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
        for (const auto& each : outbox.put_bodies({asked.begin(), asked.end()}, bodies))
            lost += static_cast<char>(each.stamp);
        return lost;
    }

    static constexpr OwnerId owner = 7;
    IdleHost host;
    Receipts receipts{{0, 1}, host};
    BrokerSettings settings;
    Journal journal{settings, {0, 1}, host, receipts};
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
    CHECK(stored.totals.bytes_in_memory() == bytes / 3);
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
    CHECK(stored.totals.bytes_in_memory() == 0);
}

TEST_CASE("a message that the store no longer has is taken out of the queue") {
    StoredOutbox stored;
    stored.enqueue("abcde");
    stored.drop_oldest_bodies(5);
    CHECK(stored.put("abcd", "bd") == "ac");
    CHECK(stored.sent() == "bd");
    CHECK(stored.put("e", "") == "e");
    CHECK(stored.outbox.idle());
}

TEST_CASE("messages that are merged into a queue take their places in the order of stamps") {
    StoredOutbox stored;
    StoredOutbox other;
    stored.enqueue("bdf");
    other.enqueue("aceg");
    CHECK(stored.outbox.take_surplus('d' % 2, 0)->stamp == 'b');  // now its shares are counted
    const std::size_t bytes = stored.outbox.queued_bytes() + other.outbox.queued_bytes();
    stored.outbox.merge(other.outbox.take_queue());
    CHECK(stored.outbox.queued_bytes() == bytes);
    CHECK(stored.totals.bytes == bytes);
    CHECK(stored.outbox.take_surplus('a' % 2, 0)->stamp == 'a');
    CHECK(stored.sent() == "cdefg");
}

TEST_CASE("messages that are dropped while they are read don't come back") {
    StoredOutbox stored;
    stored.enqueue("abcd");
    stored.drop_oldest_bodies(4);
    // The sender with most loses its oldest: both have two messages, and the second gets a third.
    CHECK(stored.outbox.take_surplus('e' % 2, stored.body('e')->cost())->stamp == 'a');
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

TEST_CASE("a body stays in memory if no store has it, or if it may go back to a group") {
    StoredOutbox stored;
    Delivery not_stored = stored.stored('a');
    not_stored.owner = 0;
    stored.outbox.enqueue(not_stored);
    Delivery of_group = stored.stored('b');
    of_group.share = std::make_shared<const std::string>("$share/g/x");
    stored.outbox.enqueue(of_group);
    CHECK(stored.totals.bytes_in_memory() > 0);
    CHECK_FALSE(stored.totals.bodies.oldest());
}

TEST_CASE("messages from the inbox go back, with or without their bodies") {
    StoredOutbox inbox;
    inbox.enqueue("abcd");
    inbox.drop_oldest_bodies(1);
    StoredOutbox device;
    Queue handed_out = inbox.outbox.take_queue();
    CHECK(inbox.totals.bytes_in_memory() == 0);
    for (auto& each : handed_out) each.mark_from_inbox(true, StoredOutbox::owner);
    device.outbox.enqueue(std::move(handed_out));
    device.enqueue("e");
    CHECK(device.outbox.has_any_from_inbox());
    CHECK(device.put("a", "a").empty());
    const OwnerId device_owner = 8;
    CHECK(device.outbox.send_next(window_of_one, 0, device_owner)->delivery.owner ==
          StoredOutbox::owner);

    std::string back;
    for (const auto& each : device.outbox.take_from_inbox(true)) {
        CHECK(each.owner_in(0) == StoredOutbox::owner);
        back += static_cast<char>(each.stamp);
    }
    CHECK(back == "abcd");
    CHECK_FALSE(device.outbox.has_any_from_inbox());
    CHECK(device.sent() == "e");
}

namespace {

/// The queues of some sessions of one shard, stored or not, and what should be in them.
class Room {
public:
    explicit Room(unsigned seed) : random_(seed) {
        totals_.journal = &journal_;
        for (auto& member : members_) start(member);
    }

    void step() {
        Member& one = members_[random() % members_.size()];
        switch (random() % 8) {
            case 0:
            case 1: return publish();
            case 2: return leave_to_store();
            case 3: return read(one);
            case 4: return send(one);
            case 5: return drop_surplus(one);
            case 6: return move_to_device_and_back(one);
            default:
                if (random() % 8 == 0) start(one);
        }
    }

    void check() const {
        std::size_t messages = 0;
        for (const Member& each : members_) {
            REQUIRE(each.outbox->queued() == each.expected.size());
            messages += each.expected.size();
        }
        REQUIRE(totals_.messages == messages);
    }

    void end() {
        for (auto& member : members_) start(member);
        REQUIRE(totals_.messages == 0);
        REQUIRE(totals_.bytes == 0);
        REQUIRE(totals_.bytes_in_memory() == 0);
        REQUIRE_FALSE(totals_.bodies.oldest());
    }

private:
    struct Member {
        OwnerId owner = 0;
        std::unique_ptr<Outbox> outbox;
        std::deque<Stamp> expected{};
    };

    std::size_t random() { return random_(); }

    void start(Member& member) {
        member.owner = random() % 3 == 0 ? 0 : ++last_owner_;
        member.outbox = std::make_unique<Outbox>(totals_);
        member.expected.clear();
    }

    static MessageRef body(Stamp stamp) {
        return std::make_shared<Message>(Message{.topic = "room",
                                                 .payload = std::to_string(stamp),
                                                 .properties = {},
                                                 .stamp = stamp,
                                                 .sender = stamp % 3});
    }

    void publish() {
        const auto message = body(++last_stamp_);
        for (Member& member : members_) {
            if (random() % 4 == 0) continue;
            Delivery delivery{.message = message, .qos = QoS::at_least_once, .owner = member.owner};
            if (random() % 8 == 0) delivery.identifiers = {1};
            member.outbox->enqueue(delivery);
            member.expected.push_back(last_stamp_);
        }
    }

    void leave_to_store() {
        for (auto count = random() % 4; count > 0 && totals_.bodies.oldest(); --count) {
            const auto before = totals_.bytes_in_memory();
            totals_.bodies.leave_oldest_to_store();
            REQUIRE(totals_.bytes_in_memory() < before);
        }
    }

    void read(Member& member) {
        const auto asked = member.outbox->bodies_to_read(3, SIZE_MAX);
        std::vector<MessageRef> found;
        for (const Stamp stamp : asked) found.push_back(body(stamp));
        REQUIRE(member.outbox->put_bodies(asked, found).empty());
    }

    void send(Member& member) {
        while (const auto* next = member.outbox->send_next(window_of_one, 0, member.owner)) {
            REQUIRE(next->delivery.owner == member.owner);
            REQUIRE(next->delivery.message->payload == std::to_string(member.expected.front()));
            member.expected.pop_front();
            member.outbox->on_puback(next->packet_id);
        }
        REQUIRE((member.expected.empty() || member.outbox->awaits_body()));
    }

    void drop_surplus(Member& member) {
        const MessageRef next = body(last_stamp_ + 1);
        const auto dropped = member.outbox->take_surplus(SenderShares::sender(*next), next->cost());
        if (!dropped) return;
        REQUIRE(dropped->owner_in(member.owner) == member.owner);
        REQUIRE(std::erase(member.expected, dropped->stamp) == 1);
    }

    void move_to_device_and_back(Member& member) {
        if (member.owner == 0) return;
        Queue handed_out = member.outbox->take_queue();
        for (auto& each : handed_out) each.mark_from_inbox(true, member.owner);
        Outbox device(totals_);
        device.enqueue(std::move(handed_out));
        if (random() % 2 == 0) leave_to_store();
        Queue back = device.take_from_inbox(true);
        for (auto& each : back) each.mark_from_inbox(false, member.owner);
        member.outbox->enqueue(std::move(back));
    }

    IdleHost host_;
    Receipts receipts_{{0, 1}, host_};
    BrokerSettings settings_;
    Journal journal_{settings_, {0, 1}, host_, receipts_};
    Outbox::Totals totals_;
    std::minstd_rand random_;
    std::array<Member, 4> members_;
    OwnerId last_owner_ = 0;
    Stamp last_stamp_ = 0;
};

}  // namespace

TEST_CASE("a message has one body for all queues, and each queue its messages in order") {
    StoredOutbox stored;
    Outbox other(stored.totals);
    const Delivery delivery = stored.stored('a');
    stored.outbox.enqueue(delivery);
    other.enqueue(delivery);
    CHECK(stored.totals.bytes == 2 * delivery.cost());
    CHECK(stored.totals.bytes_in_memory() == delivery.cost());
    stored.totals.bodies.leave_oldest_to_store();
    CHECK(stored.totals.bytes_in_memory() == 0);
    CHECK(stored.outbox.awaits_body());
    CHECK(other.awaits_body());

    for (unsigned seed = 1; seed <= 20; ++seed) {
        Room room(seed);
        for (int step = 0; step < 500; ++step) {
            room.step();
            room.check();
        }
        room.end();
    }
}
