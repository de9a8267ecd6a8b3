#include "server/loop/rounds.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/patience.h"

using namespace pulsegate;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

/// A descriptor that is ready from the start, or when it is told to be.
struct Rung final : Polled {
    explicit Rung(Rounds& rounds, Rounds::Task what) : then(std::move(what)) {
        REQUIRE(rounds.poller().add(descriptor.get(), *this));
    }
    void on_ready(Readiness) override { then(); }
    void ring() const { REQUIRE(::eventfd_write(descriptor.get(), 1) == 0); }

    const Rounds::Task then;
    const UniqueFd descriptor{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

struct Loop {
    explicit Loop(Rounds::Task take_mail = [] {}) : rounds(context, std::move(take_mail)) {}

    /// Runs one handler after the other until `done`, or fails.
    template <class Done>
    void run_until(Done done) {
        const auto end = Clock::now() + test_patience;
        while (!done()) {
            REQUIRE(Clock::now() < end);
            context.run_one_for(std::chrono::seconds(1));
        }
    }

    boost::asio::io_context context{1};
    Rounds rounds;
};

}  // namespace

TEST_CASE("what a round leaves is done at its end, and what that leaves at the next one's") {
    Loop loop;
    std::vector<int> ran;
    loop.rounds.run([&] {
        loop.rounds.later([&] {
            ran.push_back(2);
            loop.rounds.later([&] { ran.push_back(4); });
        });
        loop.rounds.later([&] { ran.push_back(3); });
        ran.push_back(1);
    });
    CHECK(ran == std::vector{1, 2, 3});
    const auto round = loop.rounds.round();
    loop.context.poll();
    CHECK(ran == std::vector{1, 2, 3, 4});
    CHECK(loop.rounds.round() == round + 1);
    loop.context.poll();
    CHECK(loop.rounds.round() == round + 1);  // nothing is left
}

TEST_CASE("what is left between rounds is done in the next one") {
    Loop loop;
    int ran = 0;
    loop.rounds.later([&] { ++ran; });
    loop.rounds.later([&] { ++ran; });
    CHECK(ran == 0);
    loop.context.poll();
    CHECK(ran == 2);
    CHECK(loop.rounds.round() == 1);
}

TEST_CASE("mail comes before what clients have sent, and what is left comes last") {
    std::vector<int> ran;
    Loop loop([&] { ran.push_back(1); });
    const Rung client(loop.rounds, [&] {
        ran.push_back(2);
        loop.rounds.later([&] { ran.push_back(3); });
    });
    client.ring();
    loop.run_until([&] { return ran.size() >= 3; });
    CHECK(ran == std::vector{1, 2, 3});
}

TEST_CASE("clients have their turn before what a round has left to the next") {
    std::vector<int> ran;
    Loop loop;
    const Rung client(loop.rounds, [&] { ran.push_back(1); });
    loop.rounds.run([&] {
        loop.rounds.later([&] { loop.rounds.later([&] { ran.push_back(2); }); });
        client.ring();
    });
    loop.run_until([&] { return ran.size() >= 2; });
    CHECK(ran == std::vector{1, 2});
}

TEST_CASE("each batch of clients is told, also when more are ready than one batch takes") {
    Loop loop;
    std::size_t told = 0;
    std::vector<std::unique_ptr<Rung>> clients;
    for (int i = 0; i < 300; ++i) {
        clients.push_back(std::make_unique<Rung>(loop.rounds, [&] { ++told; }));
        clients.back()->ring();
    }
    loop.run_until([&] { return told == clients.size(); });
    CHECK(loop.rounds.round() == 3);                    // so others had their turns in between
    for (const auto& client : clients) client->ring();  // and it is watched on
    loop.run_until([&] { return told == 2 * clients.size(); });
}

TEST_CASE("timers and what is posted have their turn while clients are always ready") {
    Loop loop;
    std::unique_ptr<Rung> client;
    client = std::make_unique<Rung>(loop.rounds, [&] { client->ring(); });
    client->ring();
    bool posted = false;
    bool timed = false;
    boost::asio::steady_timer timer(loop.context);
    loop.rounds.after(timer, milliseconds(2), [&] { timed = true; });
    boost::asio::post(loop.context, [&] { posted = true; });
    loop.run_until([&] { return posted && timed; });
}

TEST_CASE("mail of another thread wakes the loop") {
    int taken = 0;
    Loop loop([&] { ++taken; });
    std::thread other([&] {
        for (int i = 0; i < 1000; ++i) loop.rounds.wake();
    });
    loop.run_until([&] { return taken >= 1000; });
    other.join();
    CHECK(taken == 1000);
}

TEST_CASE("a round that asks for another one gets one, however often it asks") {
    Loop loop;
    loop.rounds.run([&] {
        loop.rounds.go_on();
        loop.rounds.go_on();
    });
    loop.context.poll();
    CHECK(loop.rounds.round() == 2);
}

TEST_CASE("a timer calls in a round, none too early, and not for a time that was changed") {
    Loop loop;
    std::vector<int> called;
    boost::asio::steady_timer timer(loop.context);
    const auto start = Clock::now();
    loop.rounds.after(timer, milliseconds(1), [&] { called.push_back(1); });
    loop.rounds.after(timer, milliseconds(4), [&] { called.push_back(2); });
    loop.run_until([&] { return !called.empty(); });
    CHECK(Clock::now() - start >= milliseconds(4));
    CHECK(timer.expiry() - start >= milliseconds(4));
    CHECK(called == std::vector{2});
    CHECK(loop.rounds.round() == 1);
}
