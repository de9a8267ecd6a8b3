#include <doctest/doctest.h>

#include "loadgen/truth/close_judge.h"

namespace pulsegate::load {

namespace {

using namespace std::chrono_literals;

constexpr CloseJudge judge{1s, 100ms};
constexpr Duration limit = 30s;

/// Seen `since_after` after a send that took a millisecond.
SilenceAtClose close_after(Duration since_after, Duration blind = 5ms) {
    return {since_after + 1ms, since_after, blind};
}

}  // namespace

TEST_CASE("a silent client is closed between its limit and a tick later") {
    CHECK(judge.judge(close_after(30s), limit) == Expiry::in_time);
    CHECK(judge.judge(close_after(31'099ms), limit) == Expiry::in_time);
    CHECK(judge.judge(close_after(31'101ms), limit) == Expiry::late);
    CHECK(judge.judge(close_after(29'998ms), limit) == Expiry::early);
}

TEST_CASE("a close is early from before the send, and late from after it") {
    const Duration slow_send = 500ms;
    CHECK(judge.judge({limit, limit - slow_send, 0ms}, limit) == Expiry::in_time);
    CHECK(judge.judge({31'500ms, 31'500ms - slow_send, 0ms}, limit) == Expiry::in_time);
}

TEST_CASE("a close that a stall of the generator hides is unclear") {
    CHECK(judge.judge(close_after(33s, 3s), limit) == Expiry::unclear);
    CHECK(judge.judge(close_after(30'500ms, 2s), limit) == Expiry::unclear);
    CHECK(judge.judge(close_after(30'900ms, 800ms), limit) == Expiry::in_time);
}

TEST_CASE("a stall does not excuse a close that is wrong in any case") {
    CHECK(judge.judge(close_after(20s, 15s), limit) == Expiry::early);
    CHECK(judge.judge(close_after(35s, 3s), limit) == Expiry::late);
}

TEST_CASE("for every close the verdict is the one of the moment at which it may have happened") {
    for (Duration seen = 28s; seen < 34s; seen += 50ms)
        for (Duration blind = 0ms; blind < 3s; blind += 50ms) {
            const auto verdict = judge.judge({seen, seen, blind}, limit);
            const bool may_be_right = seen >= limit && seen - blind <= 31'100ms;
            CAPTURE(seen.count());
            CAPTURE(blind.count());
            if (verdict == Expiry::in_time) CHECK(may_be_right);
            if (verdict == Expiry::early) CHECK(seen < limit);
            if (verdict == Expiry::late && blind > stall_limit) CHECK(!(seen - blind <= 31'100ms));
            if (verdict == Expiry::unclear) CHECK(blind > stall_limit);
        }
}

TEST_CASE("a talker that the generator left silent beyond its limit was starved") {
    CHECK(was_starved(close_after(30s), limit));
    CHECK(!was_starved(close_after(29s), limit));
}

TEST_CASE("clients without a keepalive are never closed too early or too late, nor starved") {
    CHECK(judge.judge(close_after(1h), 0s) == Expiry::unclear);
    CHECK(judge.deadline(Time(1h), 0s) == Time::max());
    CHECK(!was_starved(close_after(1h), 0s));
    Oversleeping oversleeping;
    oversleeping.sent(Time(1h), Time(2h), 0s);
    CHECK(!oversleeping.explains_close(Time(2h), 1s));
}

TEST_CASE("a client that sent too late may be closed until a tick after its limit") {
    const Time start{1h};
    Oversleeping oversleeping;
    CHECK(!oversleeping.explains_close(start, 1s));
    oversleeping.sent(start, start + 29s, limit);
    CHECK(!oversleeping.explains_close(start + 29s, 1s));
    oversleeping.sent(start + 29s, start + 60s, limit);
    CHECK(oversleeping.explains_close(start + 61s, 1s));
    CHECK(!oversleeping.explains_close(start + 61'200ms, 1s));
}

}  // namespace pulsegate::load
