#include "server/loop/event_loop.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

using namespace pulsegate;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

/// Goes round until `done`, or fails.
template <class Done>
void go_round_until(EventLoop& loop, Done done) {
    const auto patience = Clock::now() + std::chrono::seconds(20);
    while (!done()) {
        REQUIRE(Clock::now() < patience);
        loop.run_round(1000);
    }
}

}  // namespace

TEST_CASE("what a posted task posts runs in the next round, and nothing is waited for before") {
    EventLoop loop;
    std::vector<int> ran;
    loop.post([&] {
        ran.push_back(1);
        loop.post([&] { ran.push_back(3); });
    });
    loop.post([&] { ran.push_back(2); });
    loop.run_round(-1);
    CHECK(ran == std::vector{1, 2});
    loop.run_round(-1);
    CHECK(ran == std::vector{1, 2, 3});
}

TEST_CASE("a task from another thread wakes the loop") {
    EventLoop loop;
    int ran = 0;
    std::thread other([&] {
        for (int i = 0; i < 1000; ++i) loop.post_from_any_thread([&] { ++ran; });
        loop.post_from_any_thread([&] { loop.stop(); });
    });
    loop.run();
    other.join();
    CHECK(ran == 1000);
}

TEST_CASE("what came from another thread before something happened is run before that is told") {
    struct Timed final : Polled {
        explicit Timed(std::vector<int>& all) : ran(all) {}
        void on_ready(Readiness) override { ran.push_back(2); }
        std::vector<int>& ran;
    };
    EventLoop loop;
    std::vector<int> ran;
    Timed event(ran);
    const UniqueFd descriptor(::eventfd(1, EFD_CLOEXEC));
    REQUIRE(loop.poller().add(descriptor.get(), event));
    loop.post([&] { ran.push_back(3); });
    std::thread([&] { loop.post_from_any_thread([&] { ran.push_back(1); }); }).join();
    loop.run_round(-1);
    CHECK(ran == std::vector{1, 2, 3});
}

TEST_CASE("timers call in the order of their times, and none too early") {
    EventLoop loop;
    std::vector<int> called;
    Timer late(loop);
    Timer early(loop);
    const auto start = Clock::now();
    late.start(milliseconds(4), [&] { called.push_back(2); });
    early.start(milliseconds(2), [&] { called.push_back(1); });
    go_round_until(loop, [&] { return !called.empty(); });
    CHECK(Clock::now() - start >= milliseconds(2));
    CHECK(early.due() - start >= milliseconds(2));
    go_round_until(loop, [&] { return called.size() == 2; });
    CHECK(Clock::now() - start >= milliseconds(4));
    CHECK(called == std::vector{1, 2});
}

TEST_CASE("a timer that is stopped, destroyed or started again does not call") {
    EventLoop loop;
    int wrong = 0;
    int right = 0;
    Timer stopped(loop);
    stopped.start(milliseconds(1), [&] { ++wrong; });
    stopped.stop();
    auto destroyed = std::make_unique<Timer>(loop);
    destroyed->start(milliseconds(1), [&] { ++wrong; });
    destroyed.reset();
    Timer again(loop);
    again.start(milliseconds(1), [&] { ++wrong; });
    again.start(milliseconds(3), [&] { ++right; });
    go_round_until(loop, [&] { return right == 1; });
    CHECK(wrong == 0);
}

TEST_CASE("a timer may destroy itself and start others when it calls") {
    EventLoop loop;
    auto timer = std::make_unique<Timer>(loop);
    Timer next(loop);
    bool done = false;
    timer->start(milliseconds(0), [&] {
        timer.reset();
        next.start(milliseconds(0), [&] { done = true; });
    });
    go_round_until(loop, [&] { return done; });
    CHECK_FALSE(timer);
}
