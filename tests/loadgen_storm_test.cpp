#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <set>
#include <string>
#include <utility>

#include "loadgen/backoff.h"
#include "loadgen/fleet.h"
#include "tests/support/tiny_server.h"

using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;

namespace {

constexpr int everybody = 20;
constexpr std::uint32_t in_storm = 15;

/// Twenty clients, of which fifteen vanish and come back.
struct Coast {
    asio::io_context io{1};
    TinyServer server{io};
    Options options;
    Plan plan;
    int logins = 0;
    bool interrupted = false;

    Coast() {
        options.clients = everybody;
        options.ramp = 1000;
        options.keepalive = 1s;
        options.messages = 200;
        options.silent = 0;
        options.duration = 300ms;
        options.storm.count = in_storm;
        options.storm_after = 100ms;
    }

    /// `answer(tcp::socket&)` is asked when somebody has come back, from the first to the last.
    template <class Answer>
    void on_return(int first, int last, Answer answer) {
        server.on_login = [=, this](tcp::socket& socket) {
            const int returned = ++logins - everybody;
            return returned >= first && returned <= last ? answer(socket) : Reason::success;
        };
    }

    Results run() {
        return run_until([](const Fleet::Glance&) { return false; });
    }

    /// Interrupts the run when `enough(const Fleet::Glance&)`.
    template <class Enough>
    Results run_until(Enough enough) {
        plan = make_plan(options, true, Machine{});
        Fleet fleet(io, plan, server.address());
        fleet.run([&](const Fleet::Glance& glance) {
            if (enough(glance) && !std::exchange(interrupted, true))
                asio::post(io, [&] { fleet.interrupt(); });
        });
        return fleet.results();
    }
};

}  // namespace

TEST_CASE_FIXTURE(Coast, "all of the storm vanish and come back, and no message is lost by it") {
    options.duration = 1500ms;
    const auto results = run();
    CHECK(results.connections.connected == everybody);
    CHECK(results.storm.vanished == in_storm);
    CHECK(results.storm.back == in_storm);
    CHECK(results.storm.attempts == in_storm);
    CHECK(results.storm.retried == 0);
    CHECK(results.storm.return_time.count() == in_storm);
    CHECK(results.storm.attempt_time.count() == in_storm);
    CHECK(results.storm.return_time.max() == results.storm.took);
    CHECK(results.storm.attempt_time.max() <= results.storm.took);
    CHECK(results.storm.setting_out <= results.storm.took);
    CHECK(results.false_offline == 0);
    CHECK(results.pings.sent >= everybody);
    CHECK(results.messages.sent >= 100);
    CHECK(results.messages.received == results.messages.sent);
    CHECK(results.quiet.latency.count() >= 10);
    CHECK(results.quiet.latency.count() + results.in_storm.latency.count() <=
          results.messages.received);
}

TEST_CASE_FIXTURE(Coast, "who is told that the server is busy tries again") {
    on_return(1, 6, [](tcp::socket&) { return Reason::server_busy; });
    const auto results = run();
    CHECK(results.storm.busy == 6);
    CHECK(results.storm.dropped == 0);
    CHECK(results.storm.retried == 6);
    CHECK(results.storm.attempts == in_storm + 6);
    CHECK(results.storm.back == in_storm);
    CHECK(results.storm.took >= 500ms);
    CHECK(results.storm.attempt_time.max() < results.storm.took);
    CHECK(results.false_offline == 0);
    CHECK(results.connections.failed == 0);
}

TEST_CASE_FIXTURE(Coast, "who loses its connection instead of an answer tries again") {
    on_return(3, 4, [](tcp::socket& socket) {
        socket.close();
        return Reason::success;
    });
    const auto results = run();
    CHECK(results.storm.busy == 0);
    CHECK(results.storm.dropped == 2);
    CHECK(results.storm.back == in_storm);
}

TEST_CASE_FIXTURE(Coast, "who is refused for another reason stays away, and the run fails") {
    on_return(1, 3, [](tcp::socket&) { return Reason::not_authorized; });
    const auto results = run();
    CHECK(results.storm.refused == 3);
    CHECK(results.storm.back == in_storm - 3);
    CHECK(results.storm.attempts == in_storm);
    REQUIRE_FALSE(results.examples.empty());
    CHECK(results.examples[0].find("not authorized") != std::string::npos);
    CHECK_FALSE(load::passed(check(plan, results)));
}

TEST_CASE_FIXTURE(Coast, "a storm is over when its time is, whoever is still away") {
    options.storm_within = 200ms;
    on_return(1, 1000, [](tcp::socket&) { return Reason::server_busy; });
    const auto results = run();
    CHECK(results.storm.back == 0);
    CHECK(results.storm.busy >= in_storm);  // more, if it took so long that some tried again
    CHECK(results.in_storm.latency.count() >= 20);
    CHECK_FALSE(load::passed(check(plan, results)));
}

TEST_CASE_FIXTURE(Coast, "who is back, pings and is closed nevertheless is false offline") {
    options.duration = 1500ms;
    std::set<tcp::socket*> back;
    on_return(1, in_storm, [&](tcp::socket& socket) {
        back.insert(&socket);
        return Reason::success;
    });
    server.on_ping = [&](tcp::socket& socket) {
        if (back.contains(&socket)) socket.close();
    };
    const auto results = run();
    CHECK(results.storm.back == in_storm);
    CHECK(results.false_offline > 0);
    CHECK(results.false_offline <= in_storm);
    CHECK_FALSE(load::passed(check(plan, results)));
}

TEST_CASE_FIXTURE(Coast, "a run that is interrupted before its storm has none") {
    options.duration = options.storm_after = 1min;
    const auto results = run_until([](const Fleet::Glance& glance) {
        return glance.phase == Fleet::Phase::running && glance.elapsed > 0s;
    });
    CHECK(results.interrupted);
    CHECK(results.connections.connected == everybody);
    CHECK(results.storm.vanished == 0);
    CHECK(load::passed(check(plan, results)));
}

TEST_CASE_FIXTURE(Coast, "an interrupted storm does not fail for who is still away") {
    options.storm_factor = 1e9;
    on_return(1, 1000, [](tcp::socket&) { return Reason::server_busy; });
    const auto results = run_until(
        [](const Fleet::Glance& glance) { return glance.storm.stage == Storm::Stage::returning; });
    CHECK(results.storm.vanished == in_storm);
    CHECK(results.storm.back == 0);
    CHECK(load::passed(check(plan, results)));
}

TEST_CASE("who is turned away waits from a second to eight, each a half shorter or longer") {
    CHECK(backoff(1, 0.5) == 1s);
    CHECK(backoff(2, 0.5) == 2s);
    CHECK(backoff(3, 0.5) == 4s);
    CHECK(backoff(4, 0.5) == 8s);
    CHECK(backoff(200, 0.5) == 8s);
    CHECK(backoff(1, 0) == 500ms);
    CHECK(backoff(4, 1) == 12s);
}
