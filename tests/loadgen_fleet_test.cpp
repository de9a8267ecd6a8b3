#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <variant>

#include "loadgen/fleet.h"
#include "protocol/encode.h"

using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

/// A server for a few clients that does right, except where a test says otherwise. It lives on the
/// generator's own loop, so a test needs no thread.
class TinyServer {
public:
    explicit TinyServer(asio::io_context& io)
        : acceptor_(io, {asio::ip::address_v4::loopback(), 0}) {
        accept();
    }

    tcp::endpoint address() const { return acceptor_.local_endpoint(); }

    Reason login = Reason::success;
    int copies = 1;  ///< of each message
    std::function<void(tcp::socket&)> on_ping = [](tcp::socket&) {};

private:
    struct Guest {
        explicit Guest(tcp::socket connected) : socket(std::move(connected)) {}
        tcp::socket socket;
        std::array<std::uint8_t, 4096> buffer{};
        std::size_t filled = 0;
    };

    void accept() {
        acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
            if (error) return;
            read(guests_.emplace_back(std::move(socket)));
            accept();
        });
    }

    void read(Guest& guest) {
        const auto room = asio::buffer(guest.buffer) + guest.filled;
        guest.socket.async_read_some(room, [&](boost::system::error_code error, std::size_t got) {
            if (error) return;
            guest.filled += got;
            take_packets(guest);
            if (guest.socket.is_open()) read(guest);
        });
    }

    void take_packets(Guest& guest) {
        Bytes rest(guest.buffer.data(), guest.filled);
        for (;;) {
            const auto frame = next_frame(rest, 4096);
            if (frame.status != Frame::Status::complete) break;
            answer(guest, std::get<Packet>(
                              decode(rest.first(frame.size), Version::v3_1_1, Sender::client)));
            if (!guest.socket.is_open()) return;
            rest = rest.subspan(frame.size);
        }
        std::copy(rest.begin(), rest.end(), guest.buffer.begin());
        guest.filled = rest.size();
    }

    void answer(Guest& guest, const Packet& packet) {
        if (std::holds_alternative<Connect>(packet)) send(guest, Connack{.reason = login});
        if (const auto* subscribe = std::get_if<Subscribe>(&packet)) {
            subscribers_[std::string(subscribe->filters.front().filter)] = &guest;
            Suback suback;
            suback.packet_id = subscribe->packet_id;
            suback.reasons = {Reason::success};
            send(guest, suback);
        }
        if (const auto* publish = std::get_if<Publish>(&packet))
            for (int copy = 0; copy < copies; ++copy)
                send(*subscribers_.at(std::string(publish->topic)), *publish);
        if (std::holds_alternative<Pingreq>(packet)) {
            send(guest, Pingresp{});
            on_ping(guest.socket);
        }
    }

    void send(Guest& guest, const Packet& packet) {
        Buffer out;
        encode(packet, Version::v3_1_1, out);
        boost::system::error_code ignored;
        asio::write(guest.socket, asio::buffer(out), ignored);
    }

    tcp::acceptor acceptor_;
    std::list<Guest> guests_;
    std::map<std::string, Guest*> subscribers_;
};

/// Twenty clients for half a second, which ping once a second.
struct Bench {
    asio::io_context io{1};
    TinyServer server{io};
    Options options;

    Bench() {
        options.clients = 20;
        options.ramp = 1000;
        options.keepalive = 1s;
        options.messages = 100;
        options.silent = 0;
        options.duration = 500ms;
    }

    void all_fall_silent_at_once() {
        options.silent = 1;
        options.silent_over = 0s;
        options.limit = 350ms;
        options.messages = 0;
    }

    Results run() {
        const auto plan = make_plan(options, true, Machine{});
        Fleet fleet(io, plan, server.address());
        fleet.run({});
        return fleet.results();
    }
};

}  // namespace

TEST_CASE_FIXTURE(Bench, "against a right server every client connects and every message arrives") {
    const auto results = run();
    CHECK(results.connections.connected == 20);
    CHECK(results.connections.failed == 0);
    CHECK(results.false_offline == 0);
    CHECK(results.messages.sent >= 50);
    CHECK(results.messages.received == results.messages.sent);
    CHECK(results.messages.latency.count() == results.messages.sent);
    CHECK(results.pings.sent > 0);
}

TEST_CASE_FIXTURE(Bench, "a refused login is a failed connection with its cause") {
    server.login = Reason::not_authorized;
    options.messages = 0;
    const auto results = run();
    CHECK(results.connections.connected == 0);
    CHECK(results.connections.failed == 20);
    REQUIRE_FALSE(results.examples.empty());
    CHECK(results.examples[0].find("not authorized") != std::string::npos);
}

TEST_CASE_FIXTURE(Bench, "messages that the server drops are lost") {
    server.copies = 0;
    options.drain = 100ms;
    const auto results = run();
    CHECK(results.messages.sent >= 50);
    CHECK(results.messages.lost == results.messages.sent);
}

TEST_CASE_FIXTURE(Bench, "messages that the server doubles are duplicated") {
    server.copies = 2;
    const auto results = run();
    CHECK(results.messages.lost == 0);
    CHECK(results.messages.duplicated == results.messages.sent);
}

TEST_CASE_FIXTURE(Bench,
                  "talkers that the server closes are false offline, and the run ends early") {
    options.duration = 1min;
    server.on_ping = [](tcp::socket& socket) { socket.close(); };
    const auto results = run();
    CHECK(results.false_offline == 20);
    CHECK(results.starved == 0);
    CHECK(results.traffic.ran < 2s);
}

TEST_CASE_FIXTURE(Bench, "silent clients that the server closes at once are closed early") {
    all_fall_silent_at_once();
    server.on_ping = [](tcp::socket& socket) { socket.close(); };
    const auto results = run();
    CHECK(results.silence.silent > 0);
    CHECK(results.silence.early == results.silence.silent);
}

TEST_CASE_FIXTURE(Bench,
                  "silent clients that the server closes past the limit are closed in time") {
    all_fall_silent_at_once();
    std::map<tcp::socket*, asio::steady_timer> patience;
    server.on_ping = [&](tcp::socket& socket) {
        auto& timer = patience.try_emplace(&socket, io).first->second;
        timer.expires_after(400ms);
        timer.async_wait([&](boost::system::error_code error) {
            if (!error) socket.close();
        });
    };
    const auto results = run();
    CHECK(results.silence.silent == 20);
    CHECK(results.silence.in_time == 20);
    CHECK(results.silence.expiry.min() >= 400ms);
}
