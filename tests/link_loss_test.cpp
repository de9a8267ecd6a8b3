// A link that has lost its connection goes on with the next one.
#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/cluster/link/frame_stream.h"
#include "tests/support/link_ends.h"
#include "tests/support/quiet_log.h"

using namespace pulsegate;
namespace asio = boost::asio;

namespace {

/// Both ends of a stream. Its connections are cut. The end that begins a connection is the near
/// one, as an edge does.
struct Severed {
    static constexpr FrameStream::Limits limits{.tick = std::chrono::minutes(1)};

    explicit Severed(asio::io_context& context) : Severed(context, connected_pair(context)) {}

    Severed(asio::io_context& context, std::pair<asio::ip::tcp::socket, asio::ip::tcp::socket> ends)
        : io(context),
          near(link_socket(std::move(ends.first)), limits),
          far(link_socket(std::move(ends.second)), limits) {}

    void connect() {
        auto [one, other] = connected_pair(io);
        const auto received = near.stream->received();
        CHECK(far.stream->resume(link_socket(std::move(other)), received));
        CHECK(near.stream->resume(link_socket(std::move(one)), far.stream->received()));
    }

    asio::io_context& io;
    HeardStream near, far;
};

constexpr std::chrono::milliseconds tick{1};

void pass_ticks(asio::io_context& io, int count) {
    for (; count > 0; --count) {
        bool has_passed = false;
        asio::steady_timer timer(io, tick);
        timer.async_wait([&](boost::system::error_code) { has_passed = true; });
        run_until(io, [&] { return has_passed; });
    }
}

}  // namespace

TEST_CASE("frames arrive once and in order, wherever the connections are cut") {
    const QuietLog quiet;
    std::mt19937 random(20261128);
    for (int round = 0; round < 20; ++round) {
        asio::io_context io;
        Severed ends(io);
        std::vector<std::string> to_near, to_far;
        const auto send = [&](HeardStream& from, std::vector<std::string>& expected) {
            const std::size_t size = random() % 10 == 0 ? random() % 2'000'000 : random() % 100;
            expected.push_back(std::to_string(expected.size()) + std::string(size, 'x'));
            from.stream->send(link_frame(expected.back()));
        };
        for (int step = 0; step < 200; ++step) {
            if (random() % 3 == 0) send(ends.near, to_far);
            if (random() % 3 == 0) send(ends.far, to_near);
            for (auto left = random() % 8; left > 0; --left) io.poll_one();
            if (random() % 8 == 0) ends.connect();
            io.restart();
        }
        run_until(io, [&] {
            return ends.far.received.size() == to_far.size() &&
                   ends.near.received.size() == to_near.size();
        });
        CHECK(ends.far.received == to_far);
        CHECK(ends.near.received == to_near);
        CHECK_FALSE(ends.near.why);
    }
}

TEST_CASE("a stream that has lost its connection says so, and keeps what it is given") {
    const QuietLog quiet;
    asio::io_context io;
    auto [one, other] = connected_pair(io);
    HeardStream ear(link_socket(std::move(one)), Severed::limits);
    int losses = 0;
    ear.stream->on_loss([&] { ++losses; });
    ear.stream->send(link_frame("before"));
    std::string bytes(10, ' ');
    run_until(io, [&] { return other.available() == bytes.size(); });
    asio::read(other, asio::buffer(bytes));
    other.close();
    run_until(io, [&] { return losses == 1; });
    CHECK(ear.stream->is_without_connection());
    CHECK(ear.changes == std::vector<bool>{false});
    ear.stream->send(link_frame("between"));
    io.poll();
    CHECK_FALSE(ear.why);

    // What the stream sends on another connection to a node that has received so many bytes.
    const auto sent_again = [&](std::uint64_t received, std::size_t size) {
        auto [next, peer] = connected_pair(io);
        CHECK(ear.stream->resume(link_socket(std::move(next)), received));
        run_until(io, [&] { return ear.stream->waiting() == 0; });
        std::string again(size, ' ');
        asio::read(peer, asio::buffer(again));
        return again;
    };
    SUBCASE("the other node has received the first frame") {
        CHECK(sent_again(10, 23) == link_position(0) + link_frame("between"));
        CHECK(ear.changes == std::vector<bool>{false, true});
    }
    SUBCASE("it has received nothing") {
        CHECK(sent_again(0, 33) == link_position(0) + link_frame("before") + link_frame("between"));
    }
    SUBCASE("it claims more than it was sent") {
        auto [next, peer] = connected_pair(io);
        CHECK_FALSE(ear.stream->resume(link_socket(std::move(next)), 11));
        CHECK(ear.why == "the other node has received 11 bytes, which can't be");
        CHECK_FALSE(ear.stream->is_without_connection());
    }
}

TEST_CASE("a stream ends if it has no connection for 16 ticks") {
    const QuietLog quiet;
    asio::io_context io;
    ToldStream told(io, {.tick = std::chrono::milliseconds(1)});
    told.peer.close();
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(*told.ear.why ==
          "the other node has closed the connection; there was no other connection in time");
    auto [one, other] = connected_pair(io);
    CHECK_FALSE(told.ear.stream->resume(link_socket(std::move(one)), 0));
}

TEST_CASE("a stream ends if nothing arrives for 16 ticks, on one connection after the other") {
    const QuietLog quiet;
    for (const bool is_lost : {true, false}) {  // else only the other node loses its connections
        CAPTURE(is_lost);
        asio::io_context io;
        ToldStream told(io, {.tick = tick});
        told.ear.stream->send(link_frame("stuck"));
        bool goes_on = true;
        for (int connections = 0; goes_on && connections < 100; ++connections) {
            if (is_lost) told.peer.close();
            pass_ticks(io, 10);
            auto [next, peer] = connected_pair(io);
            goes_on = told.ear.stream->resume(link_socket(std::move(next)), 0);
            told.peer = std::move(peer);
        }
        CHECK_FALSE(goes_on);
    }
}

TEST_CASE("a stream goes on if something arrives on each connection") {
    const QuietLog quiet;
    asio::io_context io;
    ToldStream told(io, {.tick = tick});
    const std::size_t size = link_frame("stuck").size();
    for (std::uint64_t received = size; received < 30 * size; received += size) {
        for (const char* content : {"first", "stuck"}) told.ear.stream->send(link_frame(content));
        pass_ticks(io, 3);
        auto [next, peer] = connected_pair(io);
        CHECK(told.ear.stream->resume(link_socket(std::move(next)), received));
        told.peer = std::move(peer);
    }
}

TEST_CASE("frames that the other node has received before it connects again count as progress") {
    const QuietLog quiet;
    asio::io_context io;
    ToldStream told(io, {.tick = tick});
    const std::string frame = link_frame("stuck");
    told.ear.stream->send(frame);
    for (const std::size_t received : {std::size_t{0}, frame.size()}) {
        told.peer.close();
        pass_ticks(io, 10);
        auto [next, peer] = connected_pair(io);
        CHECK(told.ear.stream->resume(link_socket(std::move(next)), received));
        told.peer = std::move(peer);
    }
}

TEST_CASE("a position that can't be ends the stream") {
    asio::io_context io;
    ToldStream told(io);
    told.say(link_frame("before") + link_position(1));
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(told.ear.received == std::vector<std::string>{"before"});
    CHECK(*told.ear.why == "the other node has received 1 bytes, which can't be");
}

TEST_CASE("a node is told what it need not keep, with the next frames or at once after many") {
    asio::io_context io;
    ToldStream told(io);
    told.say(link_frame("one"));
    run_until(io, [&] { return !told.ear.received.empty(); });
    told.ear.stream->send(link_frame("answer"));
    run_until(io, [&] { return told.ear.stream->waiting() == 0; });
    std::string bytes(22, ' ');
    asio::read(told.peer, asio::buffer(bytes));
    CHECK(bytes == link_position(7) + link_frame("answer"));
    told.say(link_frame(std::string(std::size_t{256} << 10, 'x')));
    run_until(io, [&] { return told.peer.available() == 12; });
}

TEST_CASE("streams are found by their name and their node, as long as they have not ended") {
    asio::io_context io;
    ToldStream told(io);
    const auto find = [&](const char* node, std::uint64_t name) {
        return FrameStream::find(io.get_executor(), node, name);
    };
    CHECK(find("peer#1", 7) == told.ear.stream);
    CHECK(find("peer#1", 8) == nullptr);
    CHECK(find("peer#2", 7) == nullptr);
    told.ear.stream->end("a test's reason");
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(find("peer#1", 7) == nullptr);
}

TEST_CASE("the silence of the other node counts from the last tick before this one stood still") {
    const QuietLog quiet;
    SuspendedMachine machine;
    asio::io_context io;
    ToldStream told(io, {.tick = std::chrono::minutes(1)});
    told.say(link_frame("before"));
    run_until(io, [&] { return told.ear.received.size() == 1; });
    constexpr Millis still = 80'000;
    machine.advance(still);
    told.say(link_frame("meanwhile"));
    told.peer.close();
    run_until(io, [&] { return told.ear.stream->is_without_connection(); });
    CHECK(told.ear.received.size() == 2);
    CHECK(told.ear.stream->silence() >= still);
}

TEST_CASE("a node that was heard a moment ago is not silent") {
    const QuietLog quiet;
    SuspendedMachine machine;
    asio::io_context io;
    ToldStream told(io, {.tick = tick});
    machine.advance(80'000);
    pass_ticks(io, 4);
    told.say(link_frame("now"));
    told.peer.close();
    run_until(io, [&] { return told.ear.stream->is_without_connection(); });
    CHECK(told.ear.stream->silence() < 60'000);
}
