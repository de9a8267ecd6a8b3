#include "server/cluster/link/frame_stream.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/cluster/link/link_settings.h"
#include "server/cluster/link/link_socket.h"
#include "tests/support/quiet_log.h"
#include "tests/support/self_signed.h"

using namespace pulsegate;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// The ends of a connection over loopback.
std::pair<tcp::socket, tcp::socket> connected_pair(asio::io_context& io) {
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    tcp::socket one(io);
    one.connect(acceptor.local_endpoint());
    return {std::move(one), acceptor.accept()};
}

using Tls = std::shared_ptr<asio::ssl::context>;

Tls some_tls() {
    static const SelfSigned files;
    return link_tls(
        {.certificate = files.certificate, .key = files.key, .authorities = files.certificate});
}

std::shared_ptr<LinkSocket> link_socket(tcp::socket socket, Tls tls = nullptr) {
    return std::make_shared<LinkSocket>(boost::beast::tcp_stream(std::move(socket)),
                                        std::move(tls));
}

asio::awaitable<void> shake_hands(std::shared_ptr<LinkSocket> socket, bool is_server) {
    asio::awaitable<LinkSocket::Error> shaking = socket->handshake(
        is_server ? asio::ssl::stream_base::server : asio::ssl::stream_base::client);
    CHECK_FALSE(co_await std::move(shaking));
}

std::string frame(std::string_view content) {
    std::string bytes;
    for (std::size_t i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(content.size() >> 8 * i));
    return bytes.append(content);
}

/// The contents of the frames.
std::vector<std::string> contents(std::string_view frames) {
    std::vector<std::string> found;
    while (!frames.empty()) {
        REQUIRE(frames.size() >= 4);
        std::uint32_t size = 0;
        std::memcpy(&size, frames.data(), 4);
        REQUIRE(frames.size() >= 4 + size);
        found.emplace_back(frames.substr(4, size));
        frames.remove_prefix(4 + size);
    }
    return found;
}

/// A tick so long that it does not pass in a test.
constexpr FrameStream::Limits patient{.tick = std::chrono::minutes(1),
                                      .ticks_without_connection = 0};

/// What a node says that has received so many bytes.
std::string position(std::uint64_t received) {
    std::string bytes(4, '\0');
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(received >> 8 * i));
    return bytes;
}

/// A stream, and what it has told.
struct Ear {
    std::shared_ptr<FrameStream> stream;
    std::vector<std::string> received{};
    int deliveries = 0;
    std::optional<std::string> why{};
    bool is_full = false;
    int looks = 0;  ///< whether it is full
    std::vector<bool> changes{};

    explicit Ear(std::shared_ptr<LinkSocket> socket, FrameStream::Limits limits = patient)
        : stream(FrameStream::open(std::move(socket), {"peer#1", "birth", false, 3}, 7, limits)) {
        stream->begin({.received =
                           [this](std::string_view frames) {
                               CHECK_FALSE(why);
                               ++deliveries;
                               for (std::string& each : contents(frames))
                                   received.push_back(std::move(each));
                           },
                       .ended =
                           [this](const std::string& cause) {
                               CHECK_FALSE(why);
                               why = cause;
                           },
                       .is_full =
                           [this] {
                               ++looks;
                               return is_full;
                           },
                       .changed = [this](bool is_connected) { changes.push_back(is_connected); }});
    }
};

template <class Condition>
void run_until(asio::io_context& io, const Condition& is_met) {
    io.restart();  // it may have had nothing to do before
    while (!is_met()) REQUIRE(io.run_one() > 0);
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

    std::optional<Ear> near, far;
};

/// A stream, and a socket that says what a test wants.
struct Told {
    explicit Told(asio::io_context& io, FrameStream::Limits limits = patient)
        : Told(connected_pair(io), limits) {}

    Told(std::pair<tcp::socket, tcp::socket> ends, FrameStream::Limits limits)
        : ear(link_socket(std::move(ends.first)), limits), peer(std::move(ends.second)) {}

    void say(std::string_view bytes) { asio::write(peer, asio::buffer(bytes)); }

    Ear ear;
    tcp::socket peer;
};

void for_each_kind(const std::function<void(Tls)>& test) {
    SUBCASE("plain") { test(nullptr); }
    SUBCASE("TLS") { test(some_tls()); }
}

}  // namespace

TEST_CASE("frames travel in both directions, and say who the other node is") {
    for_each_kind([](Tls tls) {
        asio::io_context io;
        Both ends(io, std::move(tls));
        CHECK(ends.near->stream->peer() == LinkHello{"peer#1", "birth", false, 3});
        ends.near->stream->send(frame("ping"));
        ends.far->stream->send(frame("pong") + frame("bell"));
        run_until(io, [&] { return ends.far->received.size() + ends.near->received.size() == 3; });
        CHECK(ends.far->received == std::vector<std::string>{"ping"});
        CHECK(ends.near->received == std::vector<std::string>{"pong", "bell"});
        CHECK(ends.near->stream->waiting() == 0);
    });
}

TEST_CASE("while it is full, a stream reads nothing, and the other node is not called silent") {
    asio::io_context io;
    constexpr auto tick = std::chrono::milliseconds(1);
    Told ends(io, {.tick = tick, .ticks_without_connection = 0});
    ends.ear.is_full = true;
    ends.say(frame("waits"));
    run_until(io, [&] { return ends.ear.looks == 50; });  // longer than 16 ticks
    CHECK(ends.ear.received.empty());
    CHECK_FALSE(ends.ear.why);
    ends.ear.is_full = false;
    run_until(io, [&] { return !ends.ear.received.empty(); });
    CHECK(ends.ear.received == std::vector<std::string>{"waits"});
}

TEST_CASE("a stream that ends while it is full tells so") {
    asio::io_context io;
    Told ends(io);
    ends.ear.is_full = true;
    run_until(io, [&] { return ends.ear.looks == 2; });
    ends.ear.stream->end("a test's reason");
    run_until(io, [&] { return ends.ear.why.has_value(); });
    CHECK(ends.ear.why == "a test's reason");
}

TEST_CASE("who sends frames hears how many bytes wait") {
    asio::io_context io;
    Both ends(io);
    CHECK(ends.near->stream->send(frame("ping")) == 8);
    CHECK(ends.near->stream->send("") == 8);
    CHECK(ends.near->stream->send(frame("")) == 12);
    run_until(io, [&] { return ends.near->stream->waiting() == 0; });
    ends.near->stream->end("a test's reason");
    CHECK(ends.near->stream->send(frame("ping")) == 0);
}

TEST_CASE("the frames of each thread arrive in order") {
    for_each_kind([](Tls tls) {
        constexpr int most = 2000;
        asio::io_context io;
        Both ends(io, std::move(tls));
        const auto count = [&](char name) {
            for (int i = 0; i < most; ++i) ends.near->stream->send(frame(name + std::to_string(i)));
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
    Told told(io);
    for (int i = 0; i < 100; ++i) told.ear.stream->send(frame("x"));
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
        ends.near->stream->send(frame(large));
        ends.near->stream->send(frame("small"));
        ends.near->stream->send(frame(std::string(FrameStream::largest_frame, 'y')));
        run_until(io, [&] { return ends.far->received.size() == 3; });
        CHECK(ends.far->received[0] == large);
        CHECK(ends.far->received[1] == "small");
        CHECK(ends.far->received[2].size() == FrameStream::largest_frame);
        run_until(io, [&] { return ends.near->stream->waiting() == 0; });
    });
}

TEST_CASE("frames may arrive in pieces, wherever they are cut") {
    asio::io_context io;
    Told told(io);
    const std::string empty = position(0);
    const std::string all =
        frame("one") + empty + frame("t") + frame(std::string(300, '3')) + empty;
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
    Told told(io);
    told.say(frame("a") + frame("b") + frame("c"));
    run_until(io, [&] { return told.ear.received.size() == 3; });
    CHECK(told.ear.deliveries == 1);
}

TEST_CASE("a frame that is too large ends the stream after the frames before it") {
    asio::io_context io;
    Told told(io);
    told.say(frame("before") + std::string("\x01\x00\x10\x01", 4));  // 17 MiB and a byte
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(told.ear.received == std::vector<std::string>{"before"});
    CHECK(*told.ear.why == "the other node announces a frame of 17825793 bytes");
}

TEST_CASE("a node that is silent for 16 ticks is gone, even if nobody has begun to read") {
    asio::io_context io;
    const FrameStream::Limits hasty{.tick = std::chrono::milliseconds(1),
                                    .ticks_without_connection = 0};
    Told told(io, hasty);
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(*told.ear.why == "the other node is silent");
    std::array<char, 16> room{};
    std::size_t got = asio::read(told.peer, asio::buffer(room, 12));
    CHECK(std::string_view(room.data(), got) == position(0));  // it was not

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
    Ear near(link_socket(std::move(one)), {.tick = tick});
    Ear far(link_socket(std::move(other)), {.tick = tick});
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
    Told told(io);
    const std::string mebibyte = frame(std::string((1 << 20) - 4, 'x'));
    for (int i = 0; i < 64; ++i) told.ear.stream->send(mebibyte);
    CHECK(told.ear.stream->waiting() == 64 << 20);
    told.ear.stream->send(frame("!"));
    told.ear.stream->send(frame("!"));  // after the end
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(*told.ear.why == "the other node reads too slowly: 67108869 bytes wait for it");
    CHECK(told.ear.stream->waiting() == 0);
    told.ear.stream->send(frame("!"));
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
    asio::write(other, asio::buffer(frame("a")));
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
            ends.far->stream->send(frame(std::string(std::size_t{8} << 20, 'x')));
            sender = std::thread([&] {
                for (; !is_over; ++sent) left->send(frame("from a thread"));
            });
            while (sent < 10) io.run_one();
        }
        is_over = true;
        sender.join();
        left->send(frame("too late"));
        left->end("too late");
        CHECK(witness.use_count() == 1);  // the handlers are gone
        CHECK(left.use_count() == 1);
    });
}

// -- the next connection --

namespace {

/// Both ends of a stream. Its connections are cut. The end that begins a connection is the near
/// one, as an edge does.
struct Severed {
    static constexpr FrameStream::Limits limits{.tick = std::chrono::minutes(1)};

    explicit Severed(asio::io_context& context) : Severed(context, connected_pair(context)) {}

    Severed(asio::io_context& context, std::pair<tcp::socket, tcp::socket> ends)
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
    Ear near, far;
};

}  // namespace

TEST_CASE("frames arrive once and in order, wherever the connections are cut") {
    const QuietLog quiet;
    std::mt19937 random(20261128);
    for (int round = 0; round < 20; ++round) {
        asio::io_context io;
        Severed ends(io);
        std::vector<std::string> to_near, to_far;
        const auto send = [&](Ear& from, std::vector<std::string>& expected) {
            const std::size_t size = random() % 10 == 0 ? random() % 2'000'000 : random() % 100;
            expected.push_back(std::to_string(expected.size()) + std::string(size, 'x'));
            from.stream->send(frame(expected.back()));
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
    Ear ear(link_socket(std::move(one)), Severed::limits);
    int losses = 0;
    ear.stream->on_loss([&] { ++losses; });
    ear.stream->send(frame("before"));
    std::string bytes(10, ' ');
    run_until(io, [&] { return other.available() == bytes.size(); });
    asio::read(other, asio::buffer(bytes));
    other.close();
    run_until(io, [&] { return losses == 1; });
    CHECK(ear.stream->is_without_connection());
    CHECK(ear.changes == std::vector<bool>{false});
    ear.stream->send(frame("between"));
    io.poll();
    CHECK_FALSE(ear.why);

    SUBCASE("the other node has received the first frame") {
        auto [next, peer] = connected_pair(io);
        CHECK(ear.stream->resume(link_socket(std::move(next)), 10));
        run_until(io, [&] { return ear.stream->waiting() == 0; });
        std::string again(23, ' ');
        asio::read(peer, asio::buffer(again));
        CHECK(again == position(0) + frame("between"));
        CHECK(ear.changes == std::vector<bool>{false, true});
    }
    SUBCASE("it has received nothing") {
        auto [next, peer] = connected_pair(io);
        CHECK(ear.stream->resume(link_socket(std::move(next)), 0));
        run_until(io, [&] { return ear.stream->waiting() == 0; });
        std::string again(33, ' ');
        asio::read(peer, asio::buffer(again));
        CHECK(again == position(0) + frame("before") + frame("between"));
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
    Told told(io, {.tick = std::chrono::milliseconds(1)});
    told.peer.close();
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(*told.ear.why ==
          "the other node has closed the connection; there was no other connection in time");
    auto [one, other] = connected_pair(io);
    CHECK_FALSE(told.ear.stream->resume(link_socket(std::move(one)), 0));
}

TEST_CASE("a position that can't be ends the stream") {
    asio::io_context io;
    Told told(io);
    told.say(frame("before") + position(1));
    run_until(io, [&] { return told.ear.why.has_value(); });
    CHECK(told.ear.received == std::vector<std::string>{"before"});
    CHECK(*told.ear.why == "the other node has received 1 bytes, which can't be");
}

TEST_CASE("a node is told what it need not keep, with the next frames or at once after many") {
    asio::io_context io;
    Told told(io);
    told.say(frame("one"));
    run_until(io, [&] { return !told.ear.received.empty(); });
    told.ear.stream->send(frame("answer"));
    run_until(io, [&] { return told.ear.stream->waiting() == 0; });
    std::string bytes(22, ' ');
    asio::read(told.peer, asio::buffer(bytes));
    CHECK(bytes == position(7) + frame("answer"));
    told.say(frame(std::string(std::size_t{256} << 10, 'x')));
    run_until(io, [&] { return told.peer.available() == 12; });
}

TEST_CASE("streams are found by their name and their node, as long as they have not ended") {
    asio::io_context io;
    Told told(io);
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
