#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/truth/presence.h"
#include "loadgen/truth/presence_text.h"

namespace pulsegate::load {

namespace {

using namespace std::chrono_literals;
using Kind = Liveness::Kind;
using Fault = Presence::Verdict::Fault;
using Order = Presence::Order;

constexpr Time start{1h};
constexpr Time end = start + 300s;
constexpr std::uint32_t client = 5;
constexpr Duration silence_limit = 15s;  // a keepalive of 10 s
constexpr Presence::Bounds bounds{1'100ms};

struct Scene {
    void happens(Kind kind, Duration at, std::uint32_t its = client,
                 Duration its_limit = silence_limit) {
        const Duration within = kind == Kind::online ? Duration::zero() : its_limit;
        presence.happened(client, {its, kind, start + at, within});
    }
    Order shows(bool online, Duration at, std::uint64_t version, bool snapshot = false) {
        return presence.observed({.observer = 1,
                                  .user = client,
                                  .online = online,
                                  .version = version,
                                  .at = start + at,
                                  .snapshot = snapshot});
    }
    Presence::Verdict verdict(Time until = end) const {
        return presence.judge(until, [](std::uint32_t) { return bounds; });
    }
    std::vector<Fault::Kind> faults(Time until = end) const {
        std::vector<Fault::Kind> kinds;
        for (const Fault& fault : verdict(until).faults) kinds.push_back(fault.kind);
        return kinds;
    }

    Presence presence;
};

using Faults = std::vector<Fault::Kind>;

/// What a client does, and what an honest server shows of it.
struct Life {
    struct Event {
        Kind kind;
        Duration at;
    };
    struct Shown {
        bool online;
        Duration at;
    };
    std::vector<Event> events;
    std::vector<Shown> shown;

    explicit Life(std::mt19937_64& random) {
        const auto between = [&](Duration least, Duration most) {
            return least + Duration(static_cast<Duration::rep>(
                               random() % static_cast<std::uint64_t>((most - least).count())));
        };
        Duration now = between(0s, 5s);
        while (now < 250s) {
            const Duration login = now;
            events.push_back({Kind::online, login});
            if (shown.empty() || !shown.back().online)
                shown.push_back({true, login + between(0ms, 400ms)});
            now += between(5s, 60s);
            const bool silent = random() % 2 == 0;
            events.push_back({silent ? Kind::silent : Kind::gone, now});
            const Duration noticed = now + (silent ? between(15s, 16s) : between(0ms, 500ms));
            Duration back = now + between(100ms, 40s);
            if (back > 250s) back = 300s;  // never
            // A takeover shows nothing.
            if (noticed < back) shown.push_back({false, noticed + between(0ms, 50ms)});
            now = std::max(back, noticed < back ? noticed + 60ms : back);
        }
    }

    Scene play() const {
        Scene scene;
        for (const Event& event : events) scene.happens(event.kind, event.at);
        for (std::size_t at = 0; at < shown.size(); ++at)
            scene.shows(shown[at].online, shown[at].at, at + 1);
        return scene;
    }
};

}  // namespace

TEST_CASE("an honest server's presence has no faults") {
    for (std::uint32_t seed = 0; seed < 1000; ++seed) {
        std::mt19937_64 random(seed);
        CAPTURE(seed);
        CHECK(Life(random).play().faults() == Faults{});
    }
}

TEST_CASE("a live client that is shown as offline is found whenever it happens") {
    std::uint32_t lies = 0;
    for (std::uint32_t seed = 0; seed < 1000; ++seed) {
        std::mt19937_64 random(seed);
        Life life(random);
        // In the middle of an online time, not within what a late watcher may be told of the end
        // before it.
        const std::size_t at = random() % (life.events.size() / 2) * 2;
        const Duration from = life.events[at].at;
        const Duration to = life.events[at + 1].at;
        if (to - from < 30s) continue;
        const Duration lie = from + 20s;
        const auto behind = std::ranges::find_if(
            life.shown, [&](const Life::Shown& shown) { return shown.at > lie; });
        const auto place = life.shown.insert(behind, {false, lie});
        life.shown.insert(place + 1, {true, lie + 1s});
        CAPTURE(seed);
        CHECK(life.play().faults() == Faults{Fault::Kind::false_offline});
        ++lies;
    }
    CHECK(lies > 100);
}

TEST_CASE("an offline during a change of network is a false one") {
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.shows(true, 1s, 1);
    scene.shows(false, 30s, 2);
    scene.shows(true, 30'010ms, 3);
    CHECK(scene.faults() == Faults{Fault::Kind::false_offline});
}

TEST_CASE(
    "a silent client that stays online is a ghost, and detection counts from its last packet") {
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.shows(true, 1s, 1);
    scene.happens(Kind::silent, 20s);

    SUBCASE("in time") {
        scene.shows(false, 36s, 2);
        CHECK(scene.faults() == Faults{});
        CHECK(scene.verdict().detections == std::vector<Duration>{16s});
    }
    SUBCASE("late") {
        scene.shows(false, 37s, 2);
        CHECK(scene.faults() == Faults{Fault::Kind::ghost});
        CHECK(scene.verdict().detections == std::vector<Duration>{17s});
    }
    SUBCASE("never") { CHECK(scene.faults() == Faults{Fault::Kind::ghost}); }
    SUBCASE("never, but nobody has looked long enough") {
        CHECK(scene.faults(start + 36s) == Faults{});
    }
    SUBCASE("never, but it comes back within its limit") {
        scene.happens(Kind::online, 34s);
        CHECK(scene.faults() == Faults{});
    }
    SUBCASE("never, and it comes back later") {
        scene.happens(Kind::online, 50s);
        CHECK(scene.faults() == Faults{Fault::Kind::ghost});
    }
    SUBCASE("never, but nobody watches any more, or only since later") {
        const auto faults_since = [&](Time since) {
            return scene.presence
                .judge(end,
                       [&](std::uint32_t) {
                           return Presence::Bounds{.slack = bounds.slack, .watched_since = since};
                       })
                .faults.size();
        };
        CHECK(faults_since(Time::max()) == 0);
        CHECK(faults_since(start + 60s) == 0);
        CHECK(faults_since(start + 30s) == 1);
    }
    SUBCASE("told to a watcher that has just come") {
        scene.shows(false, 60s, 2, true);
        CHECK(scene.faults() == Faults{});
        CHECK(scene.verdict().detections.empty());
    }
}

TEST_CASE("an offline between two lives is no fault, for the server may have seen a third") {
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.shows(true, 1s, 1);
    scene.happens(Kind::gone, 20s);
    scene.shows(false, 20s, 2);
    scene.shows(true, 25s, 3);  // a login of which the client never heard
    scene.shows(false, 35s, 4);
    CHECK(scene.faults() == Faults{});
    scene.happens(Kind::online, 50s);
    scene.shows(true, 50s, 5);
    scene.shows(false, 80s, 6);
    CHECK(scene.faults() == Faults{Fault::Kind::false_offline});
}

TEST_CASE("a login that is never shown is missing") {
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.shows(true, 1'300ms, 1);
    scene.happens(Kind::gone, 20s);
    scene.shows(false, 20'200ms, 2);
    scene.happens(Kind::online, 40s);

    SUBCASE("shown") {
        scene.shows(true, 40'500ms, 3);
        CHECK(scene.faults() == Faults{});
        CHECK(scene.verdict().appearances == std::vector<Duration>{300ms, 500ms});
    }
    SUBCASE("not shown") { CHECK(scene.faults() == Faults{Fault::Kind::missing}); }
    SUBCASE("not shown, but too short") {
        scene.happens(Kind::gone, 41s);
        CHECK(scene.faults() == Faults{});
    }
}

TEST_CASE("a user is online while any of the clients is that share it") {
    constexpr std::uint32_t other = 9;
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.happens(Kind::online, 5s, other);
    scene.shows(true, 1s, 1);

    SUBCASE("the first one goes") {
        scene.happens(Kind::gone, 20s);
        CHECK(scene.faults() == Faults{});
        scene.shows(false, 20s, 2);
        CHECK(scene.faults() == Faults{Fault::Kind::false_offline});
    }
    SUBCASE("both go") {
        scene.happens(Kind::gone, 20s, other);
        scene.happens(Kind::silent, 25s);
        CHECK(scene.faults() == Faults{Fault::Kind::ghost});
        scene.shows(false, 40s, 2);
        CHECK(scene.faults() == Faults{});
        CHECK(scene.verdict().detections == std::vector<Duration>{15s});
    }
    SUBCASE("the silent one has the longer limit") {
        scene.happens(Kind::silent, 20s, client, 60s);
        scene.happens(Kind::gone, 25s, other);
        scene.shows(false, 80s, 2);
        CHECK(scene.faults() == Faults{});
    }
}

TEST_CASE("a client that sends DISCONNECT must be shown as offline at once, even for a short nap") {
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.shows(true, 1s, 1);
    scene.happens(Kind::gone, 20s, client, 0s);
    scene.happens(Kind::online, 24s);

    SUBCASE("shown") {
        scene.shows(false, 20s, 2);
        scene.shows(true, 24s, 3);
        CHECK(scene.faults() == Faults{});
    }
    SUBCASE("hidden") {
        scene.shows(true, 24s, 2);
        CHECK(scene.faults() == Faults{Fault::Kind::ghost});
    }
}

TEST_CASE("a client without a keepalive is no ghost, even after a long silence") {
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.shows(true, 1s, 1);
    scene.happens(Kind::silent, 20s, client, 0s);
    CHECK(scene.faults() == Faults{});
}

TEST_CASE("a user that was never shown is found once, if a watcher was there long enough") {
    Scene scene;
    scene.happens(Kind::online, 1s);
    scene.happens(Kind::gone, 20s);
    scene.happens(Kind::online, 30s);
    CHECK(scene.faults() == Faults{Fault::Kind::unseen});

    const auto faults_since = [&](Time since) {
        return scene.presence
            .judge(start + 40s,
                   [&](std::uint32_t) {
                       return Presence::Bounds{.slack = bounds.slack, .watched_since = since};
                   })
            .faults.size();
    };
    CHECK(faults_since(start + 38s) == 1);
    CHECK(faults_since(start + 39s) == 0);
    CHECK(faults_since(Time::max()) == 0);
}

TEST_CASE(
    "versions only grow for each observer, and several observers may be told at other times") {
    Presence presence;
    const auto observe = [&](std::uint32_t observer, std::uint64_t version) {
        return presence.observed({.observer = observer,
                                  .user = client,
                                  .online = true,
                                  .version = version,
                                  .at = start});
    };
    CHECK(observe(1, 5) == Order::news);
    CHECK(observe(1, 5) == Order::repeated);
    CHECK(observe(1, 7) == Order::news);
    CHECK(observe(2, 6) == Order::news);
    CHECK(observe(1, 6) == Order::out_of_order);
    CHECK(observe(2, 7) == Order::news);
}

TEST_CASE("an observer that is told another state for a known version is found") {
    Presence presence;
    const auto observe = [&](std::uint32_t observer, std::uint64_t version, bool online) {
        return presence.observed({.observer = observer,
                                  .user = client,
                                  .online = online,
                                  .version = version,
                                  .at = start});
    };
    CHECK(observe(1, 5, true) == Order::news);
    CHECK(observe(2, 5, false) == Order::contradiction);
    CHECK(observe(1, 5, false) == Order::contradiction);
    CHECK(observe(1, 5, true) == Order::repeated);
    CHECK(observe(2, 6, false) == Order::news);
}

TEST_CASE("a change that lasted and was hidden from one of two observers is found") {
    Scene scene;
    const auto tell = [&](std::uint32_t observer, bool online, Duration at, std::uint64_t version,
                          Duration since = 0s, bool snapshot = false) {
        scene.presence.observed(
            {observer, client, online, version, start + at, snapshot, start + since});
    };
    scene.happens(Kind::online, 1s);
    tell(1, true, 1s, 1);
    tell(2, true, 1s, 1);
    scene.happens(Kind::gone, 10s);
    tell(1, false, 10s, 2);

    SUBCASE("and the next one was told") {
        scene.happens(Kind::online, 14s);
        tell(1, true, 14s, 3);
        tell(2, true, 14s, 3);
        const auto found = scene.verdict().faults;
        REQUIRE(found.size() == 1);
        CHECK(found.front().kind == Fault::Kind::hidden);
        CHECK(found.front().observer == 2);
        CHECK(found.front().at == start + 10s);
    }
    SUBCASE("but the next one followed at once") {
        scene.happens(Kind::online, 11s);
        tell(1, true, 11s, 3);
        tell(2, true, 11s, 3);
        CHECK(scene.faults() == Faults{});
    }
    SUBCASE("but the observer came later") {
        scene.happens(Kind::online, 14s);
        tell(1, true, 14s, 3);
        tell(2, true, 14s, 3, 12s);
        CHECK(scene.faults() == Faults{});
    }
    SUBCASE("but it asked again") {
        scene.happens(Kind::online, 14s);
        tell(1, true, 14s, 3);
        tell(2, true, 15s, 3, 15s, true);
        CHECK(scene.faults() == Faults{});
    }
    SUBCASE("and the next one looks like the answer to a question that was not asked") {
        scene.happens(Kind::online, 14s);
        tell(1, true, 14s, 3);
        tell(2, true, 15s, 3, 0s, true);
        CHECK(scene.faults() == Faults{Fault::Kind::hidden});
    }
    SUBCASE("to the end") {
        const auto judged = [&](std::uint32_t observer, Duration until) {
            Presence::Verdict verdict;
            scene.presence.judge_last(observer, client, start, start + until, bounds.slack,
                                      verdict);
            return verdict.faults.size();
        };
        CHECK(judged(1, 20s) == 0);
        CHECK(judged(2, 20s) == 1);
        CHECK(judged(3, 20s) == 1);
        CHECK(judged(2, 11s) == 0);
        tell(2, false, 12s, 2);
        CHECK(judged(2, 20s) == 0);
    }
}

TEST_CASE("the second of two answers to one question is the report of a change") {
    const auto offline_at = [](Duration at, Duration since) {
        Scene scene;
        const auto told = [&](bool online, Duration when, std::uint64_t version) {
            scene.presence.observed(
                {1, client, online, version, start + when, true, start + since});
        };
        scene.happens(Kind::online, 1s);
        told(true, 2s, 1);
        told(false, at, 2);
        told(true, at + 1ms, 3);
        return scene.faults();
    };
    CHECK(offline_at(20s, 1s) == Faults{Fault::Kind::false_offline});
    CHECK(offline_at(9s, 1s) == Faults{Fault::Kind::false_offline});
    CHECK(offline_at(9s, 8s) == Faults{});
}

TEST_CASE("an answer that shows a user as offline that has long been alive is false") {
    const auto answered_at = [](Duration at) {
        Scene scene;
        scene.happens(Kind::online, 1s);
        scene.shows(false, at, 1, true);
        scene.shows(true, at + 1s, 2);
        scene.happens(Kind::gone, 200s);
        scene.shows(false, 200s, 3);
        return scene.faults();
    };
    const Faults both{Fault::Kind::false_offline, Fault::Kind::shown_late};
    CHECK(answered_at(12s) == both);
    CHECK(answered_at(150s) == both);
    CHECK(answered_at(10s) == Faults{});  // the login may have taken as long
}

TEST_CASE("a version that comes again on the next connection is not out of order") {
    const auto order_of_second = [](Duration since, bool is_again) {
        Scene scene;
        const auto told = [&](Duration at, std::uint64_t version) {
            return scene.presence.observed({.observer = 1,
                                            .user = client,
                                            .online = true,
                                            .version = version,
                                            .at = start + at,
                                            .since = start + since,
                                            .is_again = is_again});
        };
        told(2s, 6);
        return told(10s, 5);
    };
    CHECK(order_of_second(9s, true) == Order::repeated);
    CHECK(order_of_second(9s, false) == Order::out_of_order);
    CHECK(order_of_second(1s, true) == Order::out_of_order);
}

TEST_CASE("facts of liveness survive the way to another worker") {
    const Liveness fact{7, Kind::silent, start + 123ns, 15s};
    Buffer bytes;
    put(fact, bytes);
    Bytes in = as_bytes(bytes);
    CHECK(take_liveness(in) == fact);
    CHECK(!take_liveness(in));
    bytes[4] = 4;
    in = as_bytes(bytes);
    CHECK(!take_liveness(in));
}

TEST_CASE("presence is read from its topic, and must be what Pulsegate's documents say") {
    const auto fault = [](std::string_view json) {
        const auto text = read_presence(json);
        return text ? fault_of(*text, "bob") : "unreadable";
    };
    const auto text = read_presence(
        R"({"user":"bob","state":"online","since":"2026-11-20T14:12:45.135Z","version":1795183965135,"cause":"login",)"
        R"("devices":[{"client":"bob-phone","since":"2026-11-20T14:12:45.135Z"}]})");
    REQUIRE(text);
    CHECK(text->online);
    CHECK(text->version == 1'795'183'965'135);
    CHECK(text->devices == std::vector<std::string>{"bob-phone"});
    CHECK(fault_of(*text, "bob").empty());
    CHECK(fault_of(*text, "eve") == "it is about bob");
    CHECK(fault(R"({"user":"bob","state":"online","version":1,"cause":"login","devices":[]})") ==
          "");
    CHECK(fault(R"({"user":"bob","state":"offline","version":1,"cause":"login","devices":[]})") ==
          "login is no cause of offline");
    CHECK(fault(R"({"user":"bob","state":"offline","version":1,"cause":"timeout",)"
                R"("devices":[{"client":"x"}]})") == "the user is offline and has devices");
    for (const char* bad :
         {R"({"user":"bob","state":"away","version":1,"cause":"login","devices":[]})",
          R"({"user":"bob","state":"online","version":"x","cause":"login","devices":[]})",
          R"({"user":"bob","state":"online","cause":"login","devices":[]})",
          R"({"user":"bob","state":"online","version":1,"cause":"login"})",
          R"({"user":"bob","state":"online","version":1,"devices":[]})", ""})
        CHECK(fault(bad) == "unreadable");
}

}  // namespace pulsegate::load
