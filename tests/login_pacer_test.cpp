#include "server/login/login_pacer.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace {

const Address newcomer(boost::asio::ip::make_address("10.0.0.7"));

/// A pacer on an event loop that is never late by its clock, and the logins that it has served.
struct Paced {
    explicit Paced(double logins_a_second, Millis wait = 60'000)
        : rate(logins_a_second), wait(wait) {}

    StoppedClock clock;
    LoginRate rate;
    const Millis wait;
    boost::asio::io_context loop{1};
    Rounds rounds{loop, [] {}};
    Counters counters;
    std::vector<LoginPacer::Ticket> served;
    std::vector<LoginPacer::Ticket> refused;
    std::vector<LoginPacer::Ticket> gone;  ///< those that don't use their turn
    LoginPacer pacer{
        rounds, rate, wait, 1000, counters, [this](LoginPacer::Ticket ticket, bool in_time) {
            (in_time ? served : refused).push_back(ticket);
            return std::erase(gone, ticket) == 0;
        }};

    /// One turn of the pacer, which comes within a few rounds: it posts, or sets a timer.
    void run_turn() {
        const auto before = served.size() + refused.size();
        for (int rounds = 0; rounds < 10 && served.size() + refused.size() == before; ++rounds)
            loop.run_one_for(std::chrono::milliseconds(5));
    }
};

using Tickets = std::vector<LoginPacer::Ticket>;

}  // namespace

TEST_CASE("two log in at once, and the others wait for the next turns, two in each") {
    Paced paced(0);
    CHECK(paced.pacer.take_turn(monotonic_now()));
    CHECK(paced.pacer.take_turn(monotonic_now()));
    CHECK_FALSE(paced.pacer.take_turn(monotonic_now()));
    for (LoginPacer::Ticket ticket = 1; ticket <= 5; ++ticket)
        paced.pacer.add(newcomer, ticket, monotonic_now());
    CHECK(paced.pacer.waiting() == 5);
    paced.run_turn();
    CHECK(paced.served == Tickets{1, 2});
    CHECK_FALSE(paced.pacer.take_turn(monotonic_now()));  // while others wait
    paced.run_turn();
    CHECK(paced.served == Tickets{1, 2, 3, 4});
    paced.run_turn();
    CHECK(paced.served == Tickets{1, 2, 3, 4, 5});
    CHECK(paced.pacer.waiting() == 0);
    paced.run_turn();
    CHECK(paced.pacer.take_turn(monotonic_now()));
}

TEST_CASE("logins that have gone don't use up the turns of those that wait") {
    Paced paced(0);
    while (paced.pacer.take_turn(monotonic_now())) continue;
    for (LoginPacer::Ticket ticket = 1; ticket <= 12; ++ticket)
        paced.pacer.add(newcomer, ticket, monotonic_now());
    for (LoginPacer::Ticket ticket = 1; ticket <= 10; ++ticket) paced.gone.push_back(ticket);
    paced.run_turn();
    CHECK(paced.served == Tickets{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

TEST_CASE("many logins that have waited too long are refused in one turn") {
    Paced paced(0.001, 0);
    while (paced.pacer.take_turn(monotonic_now())) continue;
    for (LoginPacer::Ticket ticket = 1; ticket <= 100; ++ticket)
        paced.pacer.add(newcomer, ticket, monotonic_now());
    paced.run_turn();
    CHECK(paced.refused.size() == 64);
    CHECK(paced.served.empty());
    CHECK(paced.counters.hits[static_cast<std::size_t>(Limit::login_wait)] == 64);
    paced.run_turn();
    CHECK(paced.refused.size() == 100);
}

TEST_CASE("login-wait 0 refuses no login that only waits for others of the same turn") {
    Paced paced(0, 0);
    while (paced.pacer.take_turn(monotonic_now())) continue;
    for (LoginPacer::Ticket ticket = 1; ticket <= 5; ++ticket)
        paced.pacer.add(newcomer, ticket, monotonic_now());
    for (int turn = 0; turn < 3; ++turn) paced.run_turn();
    CHECK(paced.served == Tickets{1, 2, 3, 4, 5});
    CHECK(paced.refused.empty());
}

TEST_CASE("nobody logs in while the loop is late") {
    Paced paced(0);
    paced.pacer.report_lag(1001);
    CHECK_FALSE(paced.pacer.take_turn(monotonic_now()));
    CHECK(paced.counters.hits[static_cast<std::size_t>(Limit::max_loop_lag)] == 1);
    paced.pacer.add(newcomer, 1, monotonic_now());
    paced.run_turn();  // which finds that it is late no more
    CHECK(paced.served == Tickets{1});
}
