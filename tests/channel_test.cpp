#include "server/transport/channels/channel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "protocol/encode.h"

using namespace pulsegate;

namespace {

/// What a channel tells its edge.
struct KeptPeer final : ChannelPeer {
    void send(const ChannelName&, std::string_view bytes) override { sent += bytes; }
    bool may_send(const ChannelName&) override { return has_room; }
    void tell_taken(const ChannelName&, std::uint32_t bytes) override { taken += bytes; }
    void tell_accepted(const ChannelName&, Millis limit, std::uint32_t largest) override {
        accepted.push_back({limit, largest});
        sent_before_accepted = sent.size();
    }
    void ask_silence(const ChannelName&) override { ++asked; }
    bool is_cut_off(const ChannelName&) const override { return cut_off; }
    void forget(const ChannelName&, const ChannelEnd& end) override {
        forgotten.push_back(end.cause);
    }

    std::string sent{};
    bool has_room = true;
    std::uint64_t taken = 0;
    std::vector<std::pair<Millis, std::uint32_t>> accepted{};
    std::size_t sent_before_accepted = 0;
    int asked = 0;
    bool cut_off = false;
    std::vector<Cause> forgotten{};
};

struct KeptReadiness final : Polled {
    void on_ready(Readiness ready) override { last = ready; }
    Readiness last{};
};

std::string pattern(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
    return bytes;
}

std::string publish(std::size_t size) {
    const std::string payload = pattern(size);
    Buffer packet;
    encode(Publish{.topic = "t", .payload = payload}, Version::v3_1_1, packet);
    return std::string(packet);
}

}  // namespace

TEST_CASE("a channel gives its bytes in order, however they are cut") {
    std::mt19937 random(3);
    const std::string all = pattern(1 << 20);
    KeptPeer peer;
    Channel channel({.link = 1, .number = 2, .shard = 3}, peer);
    std::string got;
    std::size_t arrived = 0;
    std::string room(100'000, '\0');
    while (got.size() < all.size()) {
        if (arrived < all.size() && random() % 2 == 0) {
            const auto size = std::min<std::size_t>(random() % 50'000, all.size() - arrived);
            channel.arrive(std::string_view(all).substr(arrived, size));
            arrived += size;
        }
        const auto size = channel.receive(room.data(), 1 + random() % room.size());
        if (size > 0) got.append(room, 0, static_cast<std::size_t>(size));
        CHECK(channel.unread() == arrived - got.size());
        if (size < 0) CHECK(errno == EAGAIN);
        // Bytes are reported before the sender, which has a window, must wait for them.
        CHECK(peer.taken <= got.size());
        CHECK(got.size() - peer.taken < Channel::report);
    }
    CHECK(got == all);
    channel.arrive_end({Cause::timeout, Reason::keep_alive_timeout, "silent"});
    CHECK(channel.receive(room.data(), 1) == 0);
    CHECK(channel.ending().cause == Cause::timeout);
}

TEST_CASE("an end comes after the bytes before it") {
    KeptPeer peer;
    Channel channel({}, peer);
    char room[8];
    channel.arrive("abc");
    channel.arrive_end({Cause::connection_lost, Reason::success, ""});
    CHECK(channel.receive(room, 2) == 2);
    CHECK(channel.receive(room, 2) == 1);
    CHECK(channel.receive(room, 2) == 0);
}

TEST_CASE("a channel sends whole packets, the last of which may be larger than its window") {
    std::mt19937 random(4);
    KeptPeer peer;
    Channel channel({}, peer);
    std::string all;
    std::vector<std::size_t> ends{0};
    while (all.size() < 1 << 20) {
        all += publish(random() % 3 == 0 ? random() % 200'000 : random() % 200);
        ends.push_back(all.size());
    }
    std::size_t sent = 0;
    std::size_t taken = 0;
    while (sent < all.size()) {
        const auto size = channel.send(std::string_view(all).substr(sent));
        if (size < 0) {
            CHECK(errno == EAGAIN);
            CHECK(sent - taken >= Channel::window);
            const auto more = static_cast<std::uint32_t>(1 + random() % (sent - taken));
            taken += more;
            channel.widen(more);
        } else {
            CHECK(sent - taken < Channel::window);
            sent += static_cast<std::size_t>(size);
            const auto end = std::ranges::lower_bound(ends, sent);
            CHECK(*end == sent);
            const bool has_room_for_last = *std::prev(end) - taken < Channel::window;
            CHECK(has_room_for_last);
        }
    }
    CHECK(peer.sent == all);
    channel.widen(UINT32_MAX);
    CHECK(channel.send(publish(2 * Channel::window)) > 2 * Channel::window);
    CHECK(channel.send("x") == -1);
    channel.send_last("bye");
    CHECK(peer.sent.ends_with("bye"));
    channel.widen(UINT32_MAX);
    CHECK(channel.send(publish(Channel::largest_packet)) == -1);
    CHECK(errno == EMSGSIZE);
}

TEST_CASE("a channel sends again when its link has room again") {
    KeptPeer peer;
    KeptReadiness connection;
    Channel channel({}, peer);
    channel.watch(connection);
    peer.has_room = false;
    CHECK(channel.send("abc") == -1);
    CHECK(errno == EAGAIN);
    peer.has_room = true;
    channel.go_on();
    CHECK(connection.last.writable);
    CHECK(channel.send("abc") == 3);
}

TEST_CASE("the edge hears that a client is logged in after its CONNACK") {
    KeptPeer peer;
    SUBCASE("when the CONNACK comes later") {
        Channel channel({}, peer);
        channel.tell_accepted(1500, 100);
        CHECK(peer.accepted.empty());
        channel.send("CONNACK");
        CHECK(peer.accepted.size() == 1);
        channel.send("more");
    }
    SUBCASE("when the CONNACK was sent before") {
        Channel channel({}, peer);
        channel.send("CONNACK");
        CHECK(peer.accepted.empty());
        channel.tell_accepted(1500, 100);
        channel.send("more");
    }
    CHECK(peer.accepted == std::vector<std::pair<Millis, std::uint32_t>>{{1500, 100}});
    CHECK(peer.sent_before_accepted == 7);
}

TEST_CASE("a channel without a link takes all that is sent, and tells nothing") {
    KeptPeer peer;
    {
        Channel channel({}, peer);
        channel.lose_edge();
        CHECK(channel.send(pattern(3 * Channel::window)) == 3 * Channel::window);
        channel.send_last("bye");
        channel.tell_accepted(1, 1);
        channel.ask_silence();
        channel.end(Cause::node_lost);
    }
    CHECK(peer.sent.empty());
    CHECK(peer.accepted.empty());
    CHECK(peer.asked == 0);
    CHECK(peer.forgotten == std::vector{Cause::node_lost});
}
