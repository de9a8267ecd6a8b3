#include <doctest/doctest.h>

#include <algorithm>

#include "loadgen/verdict.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

constexpr Duration limit = 30s;
constexpr Duration tolerance = 100ms;

Timing closed_after(Duration silence, Duration blind = 2ms) {
    return judge({silence, silence, blind}, limit, tolerance);
}

Plan plan_for(std::uint32_t clients) {
    Plan plan;
    plan.clients = clients;
    plan.limit = limit;
    return plan;
}

/// Ten clients, two of them silent, ten messages, and nothing wrong.
Results good_results() {
    Results results;
    results.connections.connected = 10;
    results.messages.planned = results.messages.sent = results.messages.received = 10;
    results.messages.acknowledged = 10;
    results.silence.silent = results.silence.in_time = 2;
    return results;
}

Check::Outcome outcome(const std::string& name, const Plan& plan, const Results& results) {
    const auto checks = check(plan, results);
    return std::ranges::find_if(checks, [&](const Check& c) { return c.name == name; })->outcome;
}

}  // namespace

TEST_CASE("a silent client may be closed from the limit to one tick and the tolerance later") {
    CHECK(closed_after(30s) == Timing::in_time);
    CHECK(closed_after(31s + 100ms) == Timing::in_time);
}

TEST_CASE("closing a nanosecond before the limit is early") {
    CHECK(closed_after(30s - 1ns) == Timing::early);
}

TEST_CASE("closing past tick and tolerance is late") {
    CHECK(closed_after(31s + 100ms + 1ns) == Timing::late);
}

TEST_CASE("time spent inside the send is on the server's side") {
    CHECK(judge({30s, 29s, 2ms}, limit, tolerance) == Timing::in_time);
    CHECK(judge({32s, 31s, 2ms}, limit, tolerance) == Timing::in_time);
}

TEST_CASE("a close during a stall of the generator proves only what it must prove") {
    CHECK(closed_after(29s, 5s) == Timing::early);       // seen late, and still early
    CHECK(closed_after(40s, 5s) == Timing::late);        // 35 s at the least
    CHECK(closed_after(33s, 5s) == Timing::unclear);     // anything from 28 s to 33 s
    CHECK(closed_after(31s, 500ms) == Timing::in_time);  // from 30.5 s to 31 s
}

TEST_CASE("a talker that was left silent for its limit was closed rightly") {
    CHECK(starved({30s, 30s, 0s}, limit));
    CHECK_FALSE(starved({29s, 29s, 0s}, limit));
}

TEST_CASE("a run without a fault passes every check") {
    CHECK(passed(check(plan_for(10), good_results())));
}

TEST_CASE("each fault fails its check") {
    const auto fails = [](const char* name, auto spoil) {
        Plan plan = plan_for(10);
        plan.options.qos = pulsegate::QoS::at_least_once;
        Results results = good_results();
        spoil(results);
        return outcome(name, plan, results) == Check::Outcome::failed &&
               !passed(check(plan, results));
    };
    CHECK(fails("connected", [](Results& r) { r.connections.connected = 9; }));
    CHECK(fails("false_offline", [](Results& r) { r.false_offline = 1; }));
    CHECK(fails("expiry", [](Results& r) { r.silence.early = 1; }));
    CHECK(fails("expiry", [](Results& r) { r.silence.late = 1; }));
    CHECK(fails("expiry", [](Results& r) { r.silence.still_open = 1; }));
    CHECK(fails("messages", [](Results& r) { r.messages.lost = 1; }));
    CHECK(fails("messages", [](Results& r) { r.messages.duplicated = 1; }));
    CHECK(fails("messages", [](Results& r) { r.messages.misdirected = 1; }));
    CHECK(fails("messages", [](Results& r) { r.messages.unsent = 1; }));
    CHECK(fails("acknowledged", [](Results& r) { r.messages.unacknowledged = 1; }));
}

TEST_CASE("what the generator did itself is not held against the server, but spoils the run") {
    Results results = good_results();
    results.starved = 3;
    results.messages.excused = 2;
    results.silence.unclear = 1;
    const auto plan = plan_for(10);
    for (const char* name : {"connected", "false_offline", "expiry", "messages"})
        CHECK(outcome(name, plan, results) == Check::Outcome::passed);
    CHECK(outcome("generator", plan, results) == Check::Outcome::failed);
    CHECK_FALSE(passed(check(plan, results)));
}

TEST_CASE("an interrupted run does not blame the server for what had not happened yet") {
    Results results = good_results();
    results.interrupted = true;
    results.connections.connected = 7;
    results.silence.in_time = 0;
    results.silence.unjudged = 2;
    CHECK(passed(check(plan_for(10), results)));
    CHECK(outcome("expiry", plan_for(10), results) == Check::Outcome::skipped);
}

TEST_CASE("without silent clients or messages those checks are skipped") {
    Results results = good_results();
    results.silence = {};
    results.messages = {};
    CHECK(outcome("expiry", plan_for(10), results) == Check::Outcome::skipped);
    CHECK(outcome("messages", plan_for(10), results) == Check::Outcome::skipped);
    CHECK(passed(check(plan_for(10), results)));
}

namespace {

/// Ten clients, of which six vanished and came back; the others' messages took ten times as long.
struct StormyRun {
    Plan plan = plan_for(10);
    Results results = good_results();

    StormyRun() {
        plan.storm = 6;
        plan.options.storm_factor = 11;
        results.storm.vanished = results.storm.back = 6;
        for (int count = 0; count < 100; ++count) {
            results.quiet.latency.add(1ms);
            results.in_storm.latency.add(10ms);
        }
    }

    Check::Outcome verdict(const char* name) const { return outcome(name, plan, results); }
};

}  // namespace

TEST_CASE_FIXTURE(StormyRun, "a storm that was weathered passes its checks") {
    CHECK(verdict("storm_back") == Check::Outcome::passed);
    CHECK(verdict("storm_latency") == Check::Outcome::passed);
    CHECK(passed(check(plan, results)));
}

TEST_CASE_FIXTURE(StormyRun, "who is not back fails the check, for whatever reason") {
    results.storm.back = 5;
    CHECK(verdict("storm_back") == Check::Outcome::failed);
    results.storm.refused = 1;
    CHECK(verdict("storm_back") == Check::Outcome::failed);
}

TEST_CASE_FIXTURE(StormyRun, "a slower answer than the factor allows fails the check") {
    plan.options.storm_factor = 9;
    CHECK(verdict("storm_latency") == Check::Outcome::failed);
}

TEST_CASE_FIXTURE(StormyRun, "latencies that are not known are not compared") {
    results.in_storm = {};
    CHECK(verdict("storm_latency") == Check::Outcome::skipped);
    CHECK_FALSE(p99_ratio(results.in_storm.latency, results.quiet.latency));
    CHECK_FALSE(p99_ratio(results.quiet.latency, results.in_storm.latency));
}

TEST_CASE_FIXTURE(StormyRun,
                  "an interrupted storm does not blame the server for who is still away") {
    results.interrupted = true;
    results.storm.back = 5;
    CHECK(verdict("storm_back") == Check::Outcome::skipped);
    results.storm = {};
    CHECK(verdict("storm_back") == Check::Outcome::skipped);
}
