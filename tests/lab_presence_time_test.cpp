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

    void happens(Liveness::Kind kind, Duration at, Duration limit = 0s) {
        presence.happened(number, {number, kind, begin + at, limit});
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

    const WatchedUser waited = offline_at(60s, {.may_have_waited = true});
    CHECK(waited.faults() == FaultKinds{});
    CHECK(waited.verdict().detections.empty());
}

TEST_CASE("an online that waited for the generator makes no ghost of the life before it") {
    for (const Presence::Observation& more :
         {Presence::Observation{.delay = 950ms}, {.may_have_waited = true}}) {
        WatchedUser user;
        user.happens(Liveness::Kind::online, 1s);
        user.told(true, 1s, 1);
        user.happens(Liveness::Kind::gone, 20s);
        user.told(false, 20s, 2);
        user.happens(Liveness::Kind::online, 22s);
        user.told(true, 22s, 3, more);
        CHECK(user.faults() == FaultKinds{});
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

}  // namespace pulsegate::load
