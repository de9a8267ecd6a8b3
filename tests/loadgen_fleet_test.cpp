#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <string>

#include "loadgen/fleet.h"
#include "tests/support/tiny_server.h"

using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;

namespace {

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
    server.on_login = [](tcp::socket&) { return Reason::not_authorized; };
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
