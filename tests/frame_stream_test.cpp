#include "server/cluster/link/frame_stream.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/cluster/link/link_settings.h"
#include "server/cluster/link/link_socket.h"
#include "tests/support/link_ends.h"
#include "tests/support/self_signed.h"

using namespace pulsegate;
namespace asio = boost::asio;

namespace {

using Tls = std::shared_ptr<asio::ssl::context>;

Tls some_tls() {
    static const SelfSigned files;
    return link_tls(
        {.certificate = files.certificate, .key = files.key, .authorities = files.certificate});
}

asio::awaitable<void> shake_hands(std::shared_ptr<LinkSocket> socket, bool is_server) {
    asio::awaitable<LinkSocket::Error> shaking = socket->handshake(
        is_server ? asio::ssl::stream_base::server : asio::ssl::stream_base::client);
    CHECK_FALSE(co_await std::move(shaking));
}

/// Both ends of a stream.
struct Both {
    explicit Both(asio::io_context& io, Tls tls = nullptr) {
        auto [one, other] = connected_pair(io);
        const auto near_socket = link_socket(std::move(one), tls);
        const auto far_socket = link_socket(std::move(other), tls);
        int shaken = 0;
        const auto note = [&](std::exception_ptr) { ++shaken; };
        asio::co_spawn(io, shake_hands(near_socket, false), note);
        asio::co_spawn(io, shake_hands(far_socket, true), note);
        run_until(io, [&] { return shaken == 2; });
        near.emplace(near_socket);
        far.emplace(far_socket);
    }

    std::optional<HeardStream> near, far;
};

void for_each_kind(const std::function<void(Tls)>& test) {
    SUBCASE("plain") { test(nullptr); }
    SUBCASE("TLS") { test(some_tls()); }
}

}  // namespace

TEST_CASE("frames travel in both directions, and name the other node") {
    for_each_kind([](Tls tls) {
        asio::io_context io;
        Both ends(io, std::move(tls));
        CHECK(ends.near->stream->peer() == LinkHello{"peer#1", "birth", false, 3});
        ends.near->stream->send(link_frame("ping"));
        ends.far->stream->send(link_frame("pong") + link_frame("bell"));
        run_until(io, [&] { return ends.far->received.size() + ends.near->received.size() == 3; });
        CHECK(ends.far->received == std::vector<std::string>{"ping"});
        CHECK(ends.near->received == std::vector<std::string>{"pong", "bell"});
        CHECK(ends.near->stream->waiting() == 0);
    });
}

TEST_CASE("while it is full, a stream reads nothing, and the other node is not called silent") {
    asio::io_context io;
    constexpr auto tick = std::chrono::milliseconds(1);
    ToldStream ends(io, {.tick = tick, .ticks_without_connection = 0});
    ends.ear.is_full = true;
    ends.say(link_frame("waits"));
    run_until(io, [&] { return ends.ear.looks == 50; });  // longer than 16 ticks
    CHECK(ends.ear.received.empty());
    CHECK_FALSE(ends.ear.why);
    ends.ear.is_full = false;
    run_until(io, [&] { return !ends.ear.received.empty(); });
    CHECK(ends.ear.received == std::vector<std::string>{"waits"});
}

TEST_CASE("a stream that ends while it is full tells so") {
    asio::io_context io;
    ToldStream ends(io);
    ends.ear.is_full = true;
    run_until(io, [&] { return ends.ear.looks == 2; });
    ends.ear.stream->end("a test's reason");
    run_until(io, [&] { return ends.ear.why.has_value(); });
    CHECK(ends.ear.why == "a test's reason");
}

TEST_CASE("the sender of frames is told how many bytes wait") {
    asio::io_context io;
    Both ends(io);
    CHECK(ends.near->stream->send(link_frame("ping")) == 8);
    CHECK(ends.near->stream->send("") == 8);
    CHECK(ends.near->stream->send(link_frame("")) == 12);
    run_until(io, [&] { return ends.near->stream->waiting() == 0; });
    ends.near->stream->end("a test's reason");
    CHECK(ends.near->stream->send(link_frame("ping")) == 0);
}

TEST_CASE("the frames of each thread arrive in order") {
    for_each_kind([](Tls tls) {
        constexpr int most = 2000;
        asio::io_context io;
        Both ends(io, std::move(tls));
        const auto count = [&](char name) {
            for (int i = 0; i < most; ++i)
                ends.near->stream->send(link_frame(name + std::to_string(i)));
        };
        std::thread a(count, 'a'), b(count, 'b');
        run_until(io, [&] { return ends.far->received.size() == 2 * most; });
        a.join();
        b.join();
        std::array<int, 2> next{};
        for (const std::string& each : ends.far->received)
            CHECK(std::stoi(each.substr(1)) == next[each[0] - 'a']++);
    });
}

TEST_CASE("frames that are handed in one after the other leave together") {
    asio::io_context io;
    ToldStream told(io);
    for (int i = 0; i < 100; ++i) told.ear.stream->send(link_frame("x"));
    CHECK(told.ear.stream->waiting() == 500);
    run_until(io, [&] { return told.ear.stream->waiting() == 0; });
    std::string bytes(1000, ' ');
    CHECK(told.peer.read_some(asio::buffer(bytes)) == 500);  // in one write
}

TEST_CASE("large frames pass, and their memory does not count as waiting for long") {
    for_each_kind([](Tls tls) {
        asio::io_context io;
        Both ends(io, std::move(tls));
        std::string large(std::size_t{16} << 20, 'x');
        large.front() = 'a';
        large.back() = 'z';
        ends.near->stream->send(link_frame(large));
        ends.near->stream->send(link_frame("small"));
        ends.near->stream->send(link_frame(std::string(FrameStream::largest_frame, 'y')));
        run_until(io, [&] { return ends.far->received.size() == 3; });
        CHECK(ends.far->received[0] == large);
        CHECK(ends.far->received[1] == "small");
        CHECK(ends.far->received[2].size() == FrameStream::largest_frame);
        run_until(io, [&] { return ends.near->stream->waiting() == 0; });
    });
}

TEST_CASE("frames may arrive in pieces, wherever they are cut") {
    asio::io_context io;
    ToldStream told(io);
    const std::string empty = link_position(0);
    const std::string all =
        link_frame("one") + empty + link_frame("t") + link_frame(std::string(300, '3')) + empty;
    const std::vector<std::string> expected{"one", "t", std::string(300, '3')};
    for (std::size_t cut = 0; cut <= all.size(); ++cut) {
        told.ear.received.clear();
        told.say(all.substr(0, cut));
        io.poll();
        told.say(all.substr(cut));
        run_until(io, [&] { return told.ear.received.size() == 3; });
        CHECK(told.ear.received == expected);
    }
    told.ear.received.clear();
    for (const char each : all) {
        told.say({&each, 1});
        io.poll();
    }
    run_until(io, [&] { return told.ear.received.size() == 3; });
    CHECK(told.ear.received == expected);
}

TEST_CASE("several frames are delivered together") {
    asio::io_context io;
    ToldStream told(io);
    told.say(link_frame("a") + link_frame("b") + link_frame("c"));
    run_until(io, [&] { return told.ear.received.size() == 3; });
    CHECK(told.ear.deliveries == 1);
}

TEST_CASE("a frame that is too large ends the stream after the frames before it") {
    asio::io_context io;
    ToldStream told(io);
    told.say(link_frame("before") + std::string("\x01\x00\x10\x01", 4));  // 17 MiB and a byte
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(told.ear.received == std::vector<std::string>{"before"});
    CHECK(*told.ear.why == "the other node announces a frame of 17825793 bytes");
}

TEST_CASE("a node that is silent for 16 ticks is gone, even if nobody has begun to read") {
    asio::io_context io;
    const FrameStream::Limits hasty{.tick = std::chrono::milliseconds(1),
                                    .ticks_without_connection = 0};
    ToldStream told(io, hasty);
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(*told.ear.why == "the other node is silent");
    std::array<char, 16> room{};
    std::size_t got = asio::read(told.peer, asio::buffer(room, 12));
    CHECK(std::string_view(room.data(), got) == link_position(0));  // it was not

    auto [one, other] = connected_pair(io);
    const auto stream = FrameStream::open(link_socket(std::move(one)), {}, 7, hasty);
    boost::system::error_code error;
    io.restart();
    io.run();  // until nothing is under way
    while (!error) got = other.read_some(asio::buffer(room), error);
    std::optional<std::string> why;
    stream->begin({.received = {}, .ended = [&](const std::string& cause) { why = cause; }});
    io.restart();
    io.run();
    CHECK(why == "the other node is silent");
}

TEST_CASE("streams without frames to send keep each other alive") {
    constexpr std::chrono::milliseconds tick(1);
    asio::io_context io;
    auto [one, other] = connected_pair(io);
    HeardStream near(link_socket(std::move(one)), {.tick = tick});
    HeardStream far(link_socket(std::move(other)), {.tick = tick});
    int ticks = 0;
    asio::steady_timer timer(io);
    const std::function<void()> count = [&] {
        timer.expires_after(tick);
        timer.async_wait([&](boost::system::error_code) {
            ++ticks;
            count();
        });
    };
    count();
    run_until(io, [&] { return ticks == 64; });
    CHECK_FALSE(near.why);
    CHECK_FALSE(far.why);
    CHECK(near.deliveries == 0);
}

TEST_CASE("a stream ends when too much waits for a node that does not read") {
    asio::io_context io;
    ToldStream told(io);
    const std::string mebibyte = link_frame(std::string((1 << 20) - 4, 'x'));
    for (int i = 0; i < 64; ++i) told.ear.stream->send(mebibyte);
    CHECK(told.ear.stream->waiting() == 64 << 20);
    told.ear.stream->send(link_frame("!"));
    told.ear.stream->send(link_frame("!"));  // after the end
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(*told.ear.why == "the other node reads too slowly: 67108869 bytes wait for it");
    CHECK(told.ear.stream->waiting() == 0);
    told.ear.stream->send(link_frame("!"));
    CHECK(told.ear.stream->waiting() == 0);
}

TEST_CASE("a stream tells once why it ended") {
    for_each_kind([](Tls tls) {
        asio::io_context io;
        Both ends(io, std::move(tls));
        std::thread([&] {
            ends.near->stream->end("no longer needed");
            ends.near->stream->end("again");
        }).join();
        run_until(io, [&] { return ends.near->why && ends.far->why; });
        CHECK(*ends.near->why == "no longer needed");
        CHECK(*ends.far->why == "the other node has closed the connection");
        std::optional<std::string> late;
        ends.far->stream->begin(
            {.received = {}, .ended = [&](const std::string& cause) { late = cause; }});
        run_until(io, [&] { return late.has_value(); });
        CHECK(late == ends.far->why);
        ends.far->stream->end("after the end");
        std::weak_ptr<FrameStream> left = ends.near->stream;
        ends.near.reset();
        io.poll();
        CHECK(left.expired());
    });
}

TEST_CASE("a handler may end its stream, and nothing is received after that") {
    asio::io_context io;
    auto [one, other] = connected_pair(io);
    const auto stream = FrameStream::open(link_socket(std::move(one)), {}, 7, patient);
    int deliveries = 0;
    std::string why;
    stream->begin({.received =
                       [&](std::string_view) {
                           ++deliveries;
                           stream->end("enough");
                       },
                   .ended = [&](const std::string& cause) { why = cause; }});
    asio::write(other, asio::buffer(link_frame("a")));
    run_until(io, [&] { return !why.empty(); });
    CHECK(why == "enough");
    CHECK(deliveries == 1);
}

TEST_CASE("an io_context may be destroyed while a stream is busy and threads send") {
    for_each_kind([](Tls tls) {
        std::shared_ptr<FrameStream> left;
        const auto witness = std::make_shared<int>();
        std::atomic<bool> is_over{false};
        std::atomic<int> sent{0};
        std::thread sender;
        {
            asio::io_context io;
            Both ends(io, std::move(tls));
            left = ends.near->stream;
            left->begin({.received = [witness, left](std::string_view) {},
                         .ended = [](const std::string&) {}});
            ends.far->stream->send(link_frame(std::string(std::size_t{8} << 20, 'x')));
            sender = std::thread([&] {
                for (; !is_over; ++sent) left->send(link_frame("from a thread"));
            });
            while (sent < 10) io.run_one();
        }
        is_over = true;
        sender.join();
        left->send(link_frame("too late"));
        left->end("too late");
        CHECK(witness.use_count() == 1);  // the handlers are gone
        CHECK(left.use_count() == 1);
    });
}
