#include <doctest/doctest.h>

#include <vector>

#include "loadgen/stalls.h"
#include "loadgen/truth/presence.h"

// When watchers are told of presence, and how much of a delay may be the generator's own.

namespace pulsegate::load {

namespace {

using namespace std::chrono_literals;

/// A user, and what watchers are told of it. Times count from the beginning of a run.
struct WatchedUser {
    static constexpr std::uint32_t number = 7;
    static constexpr Duration slack = 1'100ms;
    static constexpr Time begin{1h};

    void happens(Liveness::Kind kind, Duration at, Duration limit = 0s,
                 std::uint32_t client = number) {
        presence.happened(number, {client, kind, begin + at, limit});
    }
    /// Watcher `observer` is told, with further members of the observation.
    void told(bool online, Duration at, std::uint64_t version, Presence::Observation more = {},
              std::uint32_t observer = 1) {
        more.observer = observer;
        more.user = number;
        more.online = online;
        more.version = version;
        more.at = begin + at;
        presence.observed(more);
    }
    std::vector<Presence::Verdict::Fault::Kind> faults() const {
        std::vector<Presence::Verdict::Fault::Kind> kinds;
        for (const auto& fault : verdict().faults) kinds.push_back(fault.kind);
        return kinds;
    }
    Presence::Verdict verdict() const {
        return presence.judge(begin + 300s, [](std::uint32_t) { return Presence::Bounds{slack}; });
    }

    Presence presence;
};

using FaultKind = Presence::Verdict::Fault::Kind;
using FaultKinds = std::vector<FaultKind>;

/// The user came after a second and left after 20, and was shown so at once.
WatchedUser who_has_left() {
    WatchedUser user;
    user.happens(Liveness::Kind::online, 1s);
    user.told(true, 1s, 1);
    user.happens(Liveness::Kind::gone, 20s);
    user.told(false, 20s, 2);
    return user;
}

}  // namespace

TEST_CASE("an offline that waited for the generator is no ghost, and one that came late is") {
    const auto offline_at = [](Duration at, Presence::Observation more) {
        WatchedUser user;
        user.happens(Liveness::Kind::online, 1s);
        user.told(true, 1s, 1);
        user.happens(Liveness::Kind::silent, 20s, 15s);
        user.told(false, at, 2, more);
        return user;
    };
    const WatchedUser stalled = offline_at(36'400ms, {.delay = 400ms});
    CHECK(stalled.faults() == FaultKinds{});
    CHECK(stalled.verdict().detections == std::vector<Duration>{16s});
    CHECK(offline_at(36'400ms, {.delay = 200ms}).faults() == FaultKinds{FaultKind::ghost});
    CHECK(offline_at(60s, {.delay = 900ms}).faults() == FaultKinds{FaultKind::ghost});

    WatchedUser waited = offline_at(60s, {.may_have_waited = true});
    CHECK(waited.faults() == FaultKinds{});
    CHECK(waited.verdict().detections.empty());
    waited.told(false, 61s, 2, {.snapshot = true}, 2);
    CHECK(waited.faults() == FaultKinds{});
    waited.told(false, 61s, 2, {}, 3);
    CHECK(waited.faults() == FaultKinds{FaultKind::ghost});
}

TEST_CASE("an online that waited for the generator makes no ghost of the life before it") {
    for (const Presence::Observation& more :
         {Presence::Observation{.delay = 950ms}, {.may_have_waited = true}}) {
        WatchedUser user = who_has_left();
        user.happens(Liveness::Kind::online, 22s);
        user.told(true, 22s, 3, more);
        CHECK(user.faults() == FaultKinds{});
    }
}

TEST_CASE("a login that is shown late is a fault, if the user is still there and watched") {
    const auto came_back = [](Duration stays, Duration shown_after, Presence::Observation more,
                              Duration watched_since = 0s) {
        WatchedUser user = who_has_left();
        user.happens(Liveness::Kind::online, 30s, 200ms);
        if (stays < 100s) user.happens(Liveness::Kind::gone, 30s + stays);
        user.told(true, 30s + shown_after, 3, more);
        if (stays < 100s) user.told(false, 30s + stays + 600ms, 4);
        FaultKinds kinds;
        const auto bounds = [&](std::uint32_t) {
            return Presence::Bounds{WatchedUser::slack, WatchedUser::slack,
                                    WatchedUser::begin + watched_since};
        };
        for (const auto& fault : user.presence.judge(WatchedUser::begin + 300s, bounds).faults)
            kinds.push_back(fault.kind);
        return kinds;
    };
    const FaultKinds late{FaultKind::shown_late};
    CHECK(came_back(100s, 1'200ms, {}) == FaultKinds{});
    CHECK(came_back(100s, 1'400ms, {}) == late);
    CHECK(came_back(100s, 1'400ms, {.delay = 200ms}) == FaultKinds{});
    CHECK(came_back(100s, 1'400ms, {.may_have_waited = true}) == FaultKinds{});
    CHECK(came_back(100s, 1'400ms, {.snapshot = true}) == FaultKinds{});
    CHECK(came_back(100s, 1'400ms, {}, 31s) == FaultKinds{});
    CHECK(came_back(1s, 1'400ms, {}) == FaultKinds{});

    for (const Duration shown_after : {10s, 11s}) {
        WatchedUser user;
        user.happens(Liveness::Kind::online, 1s);
        user.told(true, 1s + shown_after, 1);
        CHECK(user.faults() == (shown_after > 10s ? late : FaultKinds{}));
    }
}

TEST_CASE("a change that only a stall made last was not hidden") {
    const auto skipped = [](Duration delay) {
        WatchedUser user;
        const auto since = WatchedUser::begin;
        user.happens(Liveness::Kind::online, 1s);
        for (const std::uint32_t observer : {1u, 2u})
            user.told(true, 1s, 1, {.since = since}, observer);
        user.happens(Liveness::Kind::gone, 10s);
        user.told(false, 10s, 2, {.since = since}, 1);
        user.happens(Liveness::Kind::online, 11s);
        for (const std::uint32_t observer : {1u, 2u})
            user.told(true, 11'800ms, 3, {.since = since, .delay = delay}, observer);
        return user.faults();
    };
    CHECK(skipped(0s) == FaultKinds{FaultKind::hidden});
    CHECK(skipped(800ms) == FaultKinds{});
}

TEST_CASE("a stall excuses as much delay as it lasted, for some seconds") {
    const Time begin{1h};
    Stalls stalls;
    CHECK(stalls.before(begin) == 0s);
    stalls.add(begin, 300ms);
    stalls.add(begin + 4s, 500ms);
    CHECK(stalls.before(begin + 5s) == 800ms);
    CHECK(stalls.before(begin + 12s) == 500ms);
    CHECK(stalls.before(begin + 15s) == 0s);
    stalls.add(begin + 20s, 200ms);
    CHECK(stalls.before(begin + 20s) == 200ms);
}

TEST_CASE("an online behind the end of a user is a false one, unless a login explains it") {
    WatchedUser user = who_has_left();
    const auto revived = [](WatchedUser copy, Duration at, Presence::Observation more = {}) {
        copy.told(true, at, 3, more);
        copy.told(false, at + 10ms, 4);
        return copy.faults();
    };
    CHECK(revived(user, 21s) == FaultKinds{});  // it may be on the way
    CHECK(revived(user, 25s) == FaultKinds{FaultKind::false_online});
    CHECK(revived(user, 25s, {.snapshot = true}) == FaultKinds{FaultKind::false_online});
    CHECK(revived(user, 25s, {.delay = 6s}) == FaultKinds{});
    CHECK(revived(user, 60s, {.may_have_waited = true}) == FaultKinds{});

    SUBCASE("that failed, of which the server may know nothing") {
        user.happens(Liveness::Kind::tried, 22s);
        CHECK(revived(user, 25s) == FaultKinds{});
        CHECK(revived(user, 100s) == FaultKinds{});
        CHECK(revived(user, 21'500ms) == FaultKinds{FaultKind::false_online});
    }
    SUBCASE("that was short, and told late") {
        user.happens(Liveness::Kind::online, 22s);
        user.happens(Liveness::Kind::gone, 23s);
        CHECK(revived(user, 32s) == FaultKinds{});
        CHECK(revived(user, 34s) == FaultKinds{FaultKind::false_online});
        user.told(true, 22s, 3);
        user.told(false, 23s, 4);
        user.told(true, 27s, 5);
        CHECK(user.faults() == FaultKinds{FaultKind::false_online});
    }
}

TEST_CASE("a change that one of two watchers is told long after the other is late") {
    const auto told_after = [](Duration delay, Presence::Observation more = {}) {
        WatchedUser user;
        user.happens(Liveness::Kind::online, 1s);
        for (const std::uint32_t observer : {1u, 2u})
            user.told(true, 1s, 1, {.since = WatchedUser::begin}, observer);
        user.happens(Liveness::Kind::gone, 20s);
        user.told(false, 20s, 2, {.since = WatchedUser::begin}, 1);
        if (more.since == Time::max()) more.since = WatchedUser::begin;
        user.told(false, 20s + delay, 2, more, 2);
        const auto verdict = user.verdict();
        for (const auto& fault : verdict.faults) {
            CHECK(fault.kind == FaultKind::late);
            CHECK(fault.observer == 2);
            CHECK(fault.at == WatchedUser::begin + 20s);
        }
        return verdict.faults.size();
    };
    CHECK(told_after(11s) == 1);
    CHECK(told_after(9s) == 0);
    CHECK(told_after(11s, {.delay = 2s}) == 0);                        // by the generator
    CHECK(told_after(11s, {.since = WatchedUser::begin + 25s}) == 0);  // it was away
    CHECK(told_after(11s, {.is_again = true}) == 0);
    CHECK(told_after(11s, {.may_have_waited = true}) == 0);
}

TEST_CASE("a watcher that comes later than others must be told the newest state that they know") {
    using Answer = Presence::FirstAnswer;
    WatchedUser user;
    for (const std::uint64_t version : {1u, 2u, 3u})
        user.told(version != 2, 1s * version, version, {.is_by_topic = true});
    const auto told_to = [&](Duration before, bool is_resumed = false, Duration from = 0s) {
        return user.presence.first_answer(
            {.observer = 2, .connected = WatchedUser::begin + 9s, .is_resumed = is_resumed},
            WatchedUser::number, WatchedUser::begin + from, WatchedUser::begin + before);
    };
    const auto answer = [&](std::uint64_t version, Duration at) {
        user.told(version != 2, at, version, {.snapshot = true, .is_by_topic = true}, 2);
    };
    SUBCASE("and is told nothing") {
        CHECK(told_to(9s) == Answer::missing);
        CHECK(told_to(9s, true) == Answer::missing);
        CHECK(told_to(1s) == Answer::right);             // others had been told nothing, either
        CHECK(told_to(9s, false, 4s) == Answer::right);  // or only before a crash
    }
    SUBCASE("and is told nothing of a user who is offline, whom the server may have forgotten") {
        CHECK(told_to(3s) == Answer::right);
    }
    SUBCASE("and is told nothing much later, when the user may have left and be forgotten") {
        const auto later = user.presence.first_answer(
            {.observer = 2, .connected = WatchedUser::begin + 40s, .is_resumed = false},
            WatchedUser::number, WatchedUser::begin, WatchedUser::begin + 39s);
        CHECK(later == Answer::right);
    }
    SUBCASE("and is told an old state") {
        answer(2, 9s);
        CHECK(told_to(9s) == Answer::old);
        CHECK(told_to(3s) == Answer::right);  // others were told the newer one as late
    }
    SUBCASE("and is told this state") {
        answer(3, 9s);
        CHECK(told_to(9s) == Answer::right);
    }
    SUBCASE("and is told a newer one") {
        answer(4, 9s);
        CHECK(told_to(9s) == Answer::right);
    }
    SUBCASE("and was told it on its last connection, which only its session remembers") {
        answer(3, 8s);
        CHECK(told_to(9s) == Answer::missing);
        CHECK(told_to(9s, true) == Answer::right);
    }
}

TEST_CASE("a user need not be shown as online before the login is complete") {
    WatchedUser user = who_has_left();
    SUBCASE("and may leave soon after it") {
        user.happens(Liveness::Kind::online, 40s, 900ms);
        user.happens(Liveness::Kind::gone, 41'500ms);
    }
    SUBCASE("so another client of the user may have left before") {
        user.happens(Liveness::Kind::online, 19'990ms, 200ms, WatchedUser::number + 1);
        user.told(true, 20'180ms, 3);
    }
    CHECK(user.faults() == FaultKinds{});
}

}  // namespace pulsegate::load
