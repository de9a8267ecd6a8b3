#include <doctest/doctest.h>

#include <algorithm>

#include "loadgen/report/checks.h"
#include "loadgen/report/hostile_effect.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

using Outcome = CheckResult::Outcome;

/// 100 clients for 40 s, of which ten fall silent; a storm; all of it as it should be.
struct LabRun {
    Scenario scenario;
    RunRecord record;

    LabRun() {
        Group group;
        group.clients = 100;
        group.messages = 50;
        group.qos = {0.2, 0.4, 0.4};
        group.watches = 2;
        scenario.groups.push_back(group);
        scenario.message_within = 100ms;

        Group hostile;
        hostile.clients = 7;
        hostile.hostile = Hostile::garbage;
        scenario.groups.push_back(hostile);

        record.marks = {{5, std::string(marks::go)},
                        {25, std::string(marks::hostile)},
                        {20, std::string(marks::storm)},
                        {24, std::string(marks::storm_over)},
                        {45, std::string(marks::drain)}};
        record.machine.cores = 4;
        record.server.on_this_machine = true;
        for (std::uint32_t second = 0; second < 50; ++second)
            record.series.push_back({second, 1, ordinary_second()});
        auto& totals = record.totals;
        for (const auto& stretch : record.series) totals.merge(stretch.measured);
        totals.add(Count::entered, 100);
        totals.add(Count::messages_expected, totals[Count::messages_sent]);
        totals.add(Count::silent, 10);
        totals.add(Count::closed_in_time, 10);
        totals.add(Count::vanished, 5);
        totals.add(Count::presence_changes, 30);
        totals.add(Count::presence_asked, 30);
        totals.add(Count::resumed, 5);
        totals.add(Timing::tcp_connect, 40us);
        for (int back = 0; back < 5; ++back) totals.add(Timing::back_again, 2s);
        totals.add(Timing::detection, 30500ms);
    }

    static Measurements ordinary_second() {
        Measurements second;
        second.add(Count::packets_sent, 100);
        second.add(Count::packets_received, 100);
        second.add(Count::messages_sent, 50);
        second.add(Count::messages_received, 50);
        second.add(Count::acknowledged, 40);
        second.add(Count::pings_sent, 5);
        second.add(Count::pings_answered, 5);
        for (int message = 0; message < 50; ++message) {
            second.add(Timing::message, 300us);
            second.add(Timing::send_lag, 20us);
        }
        for (int ping = 0; ping < 5; ++ping) second.add(Timing::ping, 60us);
        second.add(Timing::loop_lag, 100us);
        second.set(Gauge::worker_cpu, 0.2);
        second.set(Gauge::worker_cpu_max, 0.2);
        second.set(Gauge::worker_wait, 0.01);
        second.set(Gauge::server_cpu, 0.3);
        second.set(Gauge::server_silence, 0.02);
        second.set(Gauge::machine_busy, 0.15);
        second.set(Gauge::machine_steal, 0.0);
        return second;
    }

    Measurements& at(std::size_t second) { return record.series[second].measured; }
    void each_second(auto spoil) {
        for (auto& stretch : record.series) spoil(stretch.measured);
    }

    void slow_down(std::size_t from, std::size_t to, Duration latency) {
        for (std::size_t second = from; second < to; ++second)
            for (int message = 0; message < 200; ++message)
                at(second).add(Timing::message, latency);
    }
    /// Instead of the one before.
    void storm_from(double begins, double over) {
        record.marks[2].at = begins;
        record.marks[3].at = over;
    }

    std::vector<CheckResult> checks() const { return judge_run(scenario, record); }
    CheckResult check(std::string_view name) const {
        const auto all = checks();
        const auto found = std::ranges::find(all, name, &CheckResult::name);
        REQUIRE(found != all.end());
        return *found;
    }
    Outcome outcome(std::string_view name) const { return check(name).outcome; }

    /// The names of those that did not pass.
    std::vector<std::string> not_passed() const {
        std::vector<std::string> names;
        for (const auto& each : checks())
            if (each.outcome != Outcome::passed) names.push_back(each.name);
        return names;
    }
    /// Does this check fail, and no other one?
    bool only_fails(std::string_view name) const {
        return not_passed() == std::vector{std::string(name)} && outcome(name) == Outcome::failed &&
               overall(checks()) == Outcome::failed;
    }
};

/// A run with this many of what must not be.
LabRun with(Count fault, std::uint64_t many = 1) {
    LabRun run;
    run.record.totals.add(fault, many);
    return run;
}

}  // namespace

TEST_CASE_FIXTURE(LabRun, "a run without a fault passes every check") {
    CHECK(not_passed().empty());
    CHECK(overall(checks()) == Outcome::passed);
    CHECK_FALSE(bottleneck(record));
}

TEST_CASE_FIXTURE(LabRun, "who shows nobody's presence to anybody is not judged by it") {
    CHECK_FALSE(shows_no_presence(scenario, record));
    record.totals = {};
    record.totals.add(Count::presence_unseen, 100);
    CHECK(outcome("presence_unseen") == Outcome::skipped);
    CHECK(shows_no_presence(scenario, record));
}

TEST_CASE_FIXTURE(LabRun, "questions for presence fail if none of them is answered") {
    record.totals = {};
    record.totals.add(Count::presence_unanswered);
    CHECK(outcome("presence_http_answers") == Outcome::failed);
}

TEST_CASE("each fault of a server that is counted has a column of its own") {
    CHECK(with(Count::false_offline).only_fails("false_offline"));
    CHECK(with(Count::presence_unseen).only_fails("presence_unseen"));
    CHECK(with(Count::presence_http_false_offline).only_fails("presence_http_false_offline"));
    CHECK(with(Count::presence_http_ghosts).only_fails("presence_http_ghosts"));
    CHECK(with(Count::presence_http_out_of_order).only_fails("presence_http_order"));
    CHECK(with(Count::presence_unanswered).only_fails("presence_http_answers"));
    CHECK(with(Count::session_lost).only_fails("session_lost"));
    CHECK(with(Count::closed_early).only_fails("expiry_early"));
    CHECK(with(Count::closed_late).only_fails("expiry_late"));
    CHECK(with(Count::never_closed).only_fails("expiry_never"));
    CHECK(with(Count::pings_late).only_fails("pings_late"));
    CHECK(with(Count::pings_unanswered).only_fails("pings_unanswered"));
    CHECK(with(Count::messages_lost).only_fails("lost"));
    CHECK(with(Count::messages_repeated).only_fails("repeated"));
    CHECK(with(Count::messages_repeated_qos2).only_fails("repeated_qos2"));
    CHECK(with(Count::messages_reordered).only_fails("reordered"));
    CHECK(with(Count::messages_misdirected).only_fails("misdirected"));
    CHECK(with(Count::messages_damaged).only_fails("damaged"));
    CHECK(with(Count::unacknowledged).only_fails("acknowledged"));
    CHECK(with(Count::publishes_refused).only_fails("acknowledged"));
    CHECK(with(Count::presence_false_offline).only_fails("presence_false_offline"));
    CHECK(with(Count::presence_ghosts).only_fails("presence_ghosts"));
    CHECK(with(Count::presence_out_of_order).only_fails("presence_order"));
    CHECK(with(Count::presence_missing).only_fails("presence_missing"));
    CHECK(with(Count::vanished).only_fails("storm_back"));
}

TEST_CASE_FIXTURE(LabRun, "who never came in is missed") {
    scenario.groups[0].clients = 101;
    CHECK(only_fails("connected"));
    CHECK(check("connected").value == 1);
}

TEST_CASE_FIXTURE(LabRun, "hostile clients need not come in") {
    Group hostile;
    hostile.clients = 7;
    hostile.hostile = Hostile::half_open;
    scenario.groups.push_back(hostile);
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(LabRun, "what had not happened yet when the run was interrupted is no fault") {
    record.interrupted = true;
    scenario.groups[0].clients = 200;
    record.totals.add(Count::vanished, 3);
    CHECK(outcome("connected") == Outcome::passed);
    CHECK(outcome("storm_back") == Outcome::skipped);
    record.totals.add(Count::connect_failed);
    CHECK(outcome("connected") == Outcome::failed);
}

TEST_CASE_FIXTURE(LabRun, "watchers that learn too late fail the detection") {
    record.totals.add(Timing::detection, 31101ms);
    CHECK(only_fails("presence_detection"));
}

TEST_CASE_FIXTURE(LabRun, "a storm that takes too long fails its check") {
    record.totals.add(Count::vanished);
    record.totals.add(Timing::back_again, 61s);
    CHECK(only_fails("storm_back"));
}

TEST_CASE_FIXTURE(LabRun, "a storm that slows the others down fails its check") {
    at(21).add(Timing::message, 10ms);
    at(22).add(Timing::message, 10ms);
    at(22).add(Timing::message, 10ms);
    CHECK(only_fails("storm_latency"));
    CHECK(check("storm_latency").value == doctest::Approx(33).epsilon(0.05));
}

TEST_CASE_FIXTURE(LabRun,
                  "a storm in which the generator itself was slow is not judged by its p99") {
    for (std::size_t second = 20; second < 24; ++second) {
        at(second).add_all(Timing::message, at(20)[Timing::message]);
        for (int message = 0; message < 10; ++message) {
            at(second).add(Timing::message, 10ms);
            at(second).add(Timing::send_lag, 9ms);
        }
    }
    CHECK(outcome("storm_latency") == Outcome::refused);
}

TEST_CASE_FIXTURE(LabRun, "messages slower than asked for fail the objective") {
    each_second([](Measurements& second) { second.add(Timing::message, 101ms); });
    CHECK(not_passed() == std::vector<std::string>{"latency"});
    CHECK(outcome("latency") == Outcome::failed);
}

TEST_CASE_FIXTURE(LabRun, "messages that the generator itself sent late prove nothing") {
    each_second([](Measurements& second) {
        second.add(Timing::message, 101ms);
        second.add(Timing::send_lag, 60ms);
    });
    CHECK(outcome("latency") == Outcome::refused);
    CHECK(bottleneck(record));
}

TEST_CASE_FIXTURE(LabRun, "a server that stands still for a second is found, once for each time") {
    scenario.message_within = {};
    at(12).set(Gauge::server_silence, 0.8);
    CHECK(outcome("server_stalled") == Outcome::passed);
    at(13).set(Gauge::server_silence, 1.8);
    at(14).set(Gauge::server_silence, 2.5);
    at(14).add(Timing::ping, 2400ms);
    CHECK(outcome("server_stalled") == Outcome::failed);
    CHECK(check("server_stalled").value == 2.5);
    at(30).set(Gauge::server_silence, 1.0);
    at(29).add(Timing::message, 900ms);
    CHECK(check("server_stalled").detail.find("2 times") != std::string::npos);
}

TEST_CASE_FIXTURE(LabRun, "a server from which nothing was asked owes nothing") {
    each_second([](Measurements& second) { second = {}; });
    each_second([](Measurements& second) { second.add(Count::packets_received, 50); });
    at(13).set(Gauge::server_silence, 1.8);
    CHECK(outcome("server_stalled") == Outcome::passed);
}

TEST_CASE_FIXTURE(LabRun, "a server that stands still for good is found, for it owes answers") {
    for (std::size_t second = 40; second < 45; ++second) {
        Measurements silent;
        silent.add(Count::pings_sent, 5);
        silent.set(Gauge::server_silence, static_cast<double>(second) - 39);
        at(second) = silent;
    }
    CHECK(outcome("server_stalled") == Outcome::failed);
    CHECK(check("server_stalled").value == 5);
}

TEST_CASE_FIXTURE(LabRun, "without the workers' own measure, a second without packets is one") {
    for (auto& stretch : record.series) {
        Measurements second;
        second.add(Count::packets_received, stretch.second == 12 || stretch.second == 13 ? 0 : 99);
        second.add(Count::pings_sent, 5);
        stretch.measured = second;
    }
    CHECK(outcome("server_stalled") == Outcome::failed);
    CHECK(check("server_stalled").value == 2);
}

TEST_CASE_FIXTURE(LabRun, "a silence in which the generator stood still is nobody's fault") {
    at(13).set(Gauge::server_silence, 1.5);
    at(13).add(Timing::ping, 1400ms);
    at(12).add(Timing::loop_lag, 900ms);
    CHECK(outcome("server_stalled") == Outcome::refused);
}

TEST_CASE_FIXTURE(LabRun, "of few packets, a second without one says nothing") {
    each_second([](Measurements& second) {
        Measurements quiet;
        quiet.add(Count::packets_received, 2);
        quiet.set(Gauge::server_silence, 1.2);
        second = quiet;
    });
    CHECK(outcome("server_stalled") == Outcome::skipped);
}

namespace {

/// Pings that take this long, and messages that take that long, where TCP connects in 40 µs.
LabRun delayed_run(Duration ping, Duration message) {
    LabRun run;
    Measurements totals;
    for (int at = 0; at < 20; ++at) totals.add(Timing::ping, ping);
    totals.add(Timing::tcp_connect, 40us);
    totals.add(Timing::message, message);
    run.record.totals = totals;
    return run;
}

}  // namespace

TEST_CASE("a delay between generator and server is named as such") {
    const auto between = delayed_run(50ms, 100ms).check("delay");
    CHECK(between.outcome == Outcome::failed);
    CHECK(between.detail.find("between generator and server") != std::string::npos);
    CHECK(between.value == doctest::Approx(0.05).epsilon(0.01));

    const auto pings = delayed_run(50ms, 1ms).check("delay");
    CHECK(pings.outcome == Outcome::failed);
    CHECK(pings.detail.find("its answers to pings") != std::string::npos);

    CHECK(delayed_run(60us, 300us).outcome("delay") == Outcome::passed);
}

TEST_CASE("a network far away is no delay") {
    auto run = delayed_run(52ms, 104ms);
    Measurements totals = run.record.totals;
    Measurements far;
    for (int at = 0; at < 20; ++at) far.add(Timing::ping, 52ms);
    far.add(Timing::tcp_connect, 50ms);
    run.record.totals = far;
    CHECK(run.outcome("delay") == Outcome::passed);
}

// -- the generator's own trouble

namespace {

/// Nothing about the server passes or fails, and nobody says that it did.
bool refuses(const LabRun& run, std::string_view own) {
    const auto checks = run.checks();
    return run.outcome(own) == Outcome::refused && run.outcome("lost") == Outcome::refused &&
           run.outcome("connected") == Outcome::refused && overall(checks) == Outcome::refused &&
           bottleneck(run.record) == run.check(own).detail;
}

}  // namespace

TEST_CASE_FIXTURE(LabRun, "a worker that fills its core refuses the verdict") {
    each_second([](Measurements& second) { second.set(Gauge::worker_cpu_max, 0.85); });
    CHECK(refuses(*this, "generator_cpu"));
}

TEST_CASE_FIXTURE(LabRun, "a worker that is full for a moment does not") {
    at(10).set(Gauge::worker_cpu_max, 1);
    at(11).set(Gauge::worker_cpu_max, 1);
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(LabRun, "event loops that are late refuse the verdict") {
    each_second([](Measurements& second) { second.add(Timing::loop_lag, 30ms); });
    CHECK(refuses(*this, "generator_lag"));
}

TEST_CASE_FIXTURE(LabRun, "a generator that stood still for a second refuses the verdict") {
    for (int turn = 0; turn < 1000; ++turn) at(9).add(Timing::loop_lag, 1ms);
    at(10).add(Timing::loop_lag, 1100ms);
    CHECK(refuses(*this, "generator_stalls"));
}

TEST_CASE("clients that the generator left silent refuse the verdict") {
    CHECK(refuses(with(Count::starved), "generator_starved"));
}

TEST_CASE_FIXTURE(LabRun, "stolen CPU refuses the verdict") {
    each_second([](Measurements& second) { second.set(Gauge::machine_steal, 0.12); });
    CHECK(refuses(*this, "machine_steal"));
}

TEST_CASE_FIXTURE(LabRun, "programs beside the run refuse the verdict if they leave no core free") {
    each_second([](Measurements& second) { second.set(Gauge::machine_busy, 0.7); });
    CHECK(not_passed().empty());  // more than two cores of four, but one is free
    each_second([](Measurements& second) { second.set(Gauge::machine_busy, 0.95); });
    CHECK(refuses(*this, "machine_others"));
}

TEST_CASE_FIXTURE(LabRun, "programs beside the run refuse the verdict if the generator waits") {
    each_second([](Measurements& second) {
        second.set(Gauge::machine_busy, 0.4);
        second.set(Gauge::worker_wait, 0.3);
    });
    CHECK(refuses(*this, "machine_others"));
}

TEST_CASE_FIXTURE(LabRun, "a machine that is full of the server and the generator is no obstacle") {
    each_second([](Measurements& second) {
        second.set(Gauge::machine_busy, 0.99);
        second.set(Gauge::server_cpu, 3.5);
        second.set(Gauge::worker_cpu, 0.4);
    });
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(LabRun, "where the server's share can't be seen, nobody else is accused") {
    each_second([](Measurements& second) {
        second.set(Gauge::machine_busy, 0.99);
        second.set(Gauge::server_cpu, -1);
    });
    CHECK(outcome("machine_others") == Outcome::skipped);
}

TEST_CASE("what no slowness can feign fails although the generator was the bottleneck") {
    auto run = with(Count::messages_repeated_qos2);
    run.record.totals.add(Count::starved);
    run.record.totals.add(Count::messages_lost);
    CHECK(run.outcome("repeated_qos2") == Outcome::failed);
    CHECK(run.outcome("lost") == Outcome::refused);
    CHECK(overall(run.checks()) == Outcome::failed);
}

TEST_CASE("what does not occur in a scenario is skipped, and says why") {
    LabRun run;
    run.scenario.groups[0].qos = {1, 0, 0};
    run.scenario.groups[0].watches = 0;
    run.scenario.message_within = {};
    run.record.totals = {};
    run.record.totals.add(Count::entered, 100);
    run.record.marks.erase(run.record.marks.begin() + 1, run.record.marks.begin() + 3);
    for (const char* name :
         {"session_lost", "expiry_early", "expiry_late", "expiry_never", "pings_late", "lost",
          "repeated", "repeated_qos2", "reordered", "acknowledged", "presence_ghosts",
          "presence_detection", "latency", "storm_back", "storm_latency", "delay"}) {
        CAPTURE(name);
        CHECK(run.outcome(name) == Outcome::skipped);
        CHECK_FALSE(run.check(name).detail.empty());
    }
    CHECK(overall(run.checks()) == Outcome::passed);
}

TEST_CASE("the verdict says in a sentence what matters most") {
    const auto verdict = [](LabRun run) {
        run.record.checks = run.checks();
        return verdict_sentence(run.record);
    };
    CHECK(verdict(LabRun()).starts_with("The server kept every promise"));
    const auto failed = verdict(with(Count::messages_lost, 3));
    CHECK(failed.find("every message arrived") != std::string::npos);
    CHECK(failed.find("3 lost") != std::string::npos);
    CHECK(verdict(with(Count::starved)).starts_with("No verdict"));
}

TEST_CASE_FIXTURE(LabRun, "each storm is judged, and the worst is told") {
    record.marks[2].text += ": phones";
    record.marks[3].text += ": phones";
    record.marks.push_back({32, std::string(marks::storm) + ": cars"});
    record.marks.push_back({34, std::string(marks::storm_over) + ": cars"});
    CHECK(outcome("storm_latency") == Outcome::passed);
    slow_down(32, 34, 30ms);
    CHECK(check("storm_latency").outcome == Outcome::failed);
    CHECK(check("storm_latency").detail.starts_with("cars: "));

    SUBCASE("what the server did is worse than a worse lag of the generator") {
        slow_down(21, 23, 60ms);
        for (std::size_t second = 21; second < 23; ++second)
            for (int message = 0; message < 200; ++message) at(second).add(Timing::send_lag, 60ms);
        CHECK(check("storm_latency").outcome == Outcome::failed);
        CHECK(check("storm_latency").detail.starts_with("cars: "));
    }
}

TEST_CASE_FIXTURE(LabRun, "hostile clients are judged by what the others got before them") {
    CHECK(check("hostile").detail.starts_with("with 7 garbage clients p99 of messages"));
    for (std::uint32_t second = 26; second < 45; ++second)
        for (int message = 0; message < 10; ++message) at(second).add(Timing::message, 30ms);

    const auto harmed = check("hostile");
    CHECK(harmed.outcome == Outcome::failed);
    CHECK(harmed.value > 50);
    CHECK(harmed.detail.find("p99 of messages rose from ") != std::string::npos);

    SUBCASE("not if it was the generator") {
        for (std::uint32_t second = 26; second < 45; ++second)
            for (int message = 0; message < 10; ++message) at(second).add(Timing::send_lag, 30ms);
        CHECK(outcome("hostile") == Outcome::refused);
    }
    SUBCASE("its lag explains what is as short, whatever else is slower") {
        scenario.hostile_factor = 200;
        for (std::uint32_t second = 26; second < 45; ++second) {
            for (int ping = 0; ping < 5; ++ping) at(second).add(Timing::ping, 20ms);
            for (int message = 0; message < 10; ++message) at(second).add(Timing::send_lag, 12ms);
        }
        CHECK(outcome("hostile") == Outcome::refused);  // 333 times, but half of it is lag
    }
    SUBCASE("what happens in the second of their coming is on no side") {
        scenario.hostile_factor = 200;
        slow_down(25, 26, 30s);
        CHECK(outcome("hostile") == Outcome::passed);
    }
    SUBCASE("a storm before they come does not hide it") {
        slow_down(20, 25, 30s);
        CHECK(outcome("hostile") == Outcome::failed);
    }
    SUBCASE("without a quiet time there is nothing to compare") {
        std::erase_if(record.marks, [](const Mark& mark) { return mark.text == marks::hostile; });
        CHECK(outcome("hostile") == Outcome::skipped);
    }
}

TEST_CASE_FIXTURE(LabRun, "the sides before and with hostile clients are compared by their rates") {
    const auto row = [&](std::string_view label) {
        const auto rows = effect_rows(hostile_effect(record).value());
        const auto found = std::ranges::find(rows, label, &EffectRow::label);
        return found == rows.end() ? std::optional<EffectRow>() : *found;
    };
    for (std::uint32_t second = 5; second < 45; ++second) at(second).add(Count::false_offline, 2);
    CHECK(row("false offline").value().before == 2.0);
    CHECK(row("false offline").value().with == 2.0);
    CHECK(row("connects refused").value().with == 0.0);

    CHECK(row("arrived of sent").value().with == 1.0);
    record.totals.add(Count::messages_expected, 10'000);  // in rooms
    CHECK_FALSE(row("arrived of sent"));
}

TEST_CASE_FIXTURE(LabRun, "hostile clients are not blamed for a storm") {
    storm_from(30, 33);
    slow_down(30, 34, 30s);
    CHECK(outcome("hostile") == Outcome::passed);

    slow_down(34, 35, 30s);
    CHECK(outcome("hostile") == Outcome::failed);

    SUBCASE("where there is only a storm, nothing can be said") {
        storm_from(25, 45);
        CHECK(check("hostile").outcome == Outcome::skipped);
        CHECK(check("hostile").detail == "the time with hostile clients is all storm");
    }
}

TEST_CASE_FIXTURE(LabRun, "a long stretch that reaches into hostile time is no quiet one") {
    slow_down(26, 48, 30s);
    storm_from(4, 5);
    std::vector<Stretch> joined;
    const auto join_from = [&](std::uint32_t begin, std::uint32_t end) {
        joined.push_back(record.series[begin]);
        for (auto second = begin + 1; second < end; ++second)
            join(joined.back(), record.series[second]);
    };
    join_from(0, 8);
    join_from(8, 16);
    SUBCASE("it is on no side, and hides no harm") {
        join_from(16, 32);
        join_from(32, 48);
        record.marks[4].at = 48;
        record.series = joined;
        CHECK(outcome("hostile") == Outcome::failed);
    }
    SUBCASE("and if there is no other, nothing can be compared") {
        joined.clear();
        join_from(0, 32);
        join_from(32, 48);
        record.series = joined;
        CHECK(outcome("hostile") == Outcome::skipped);
        CHECK(check("hostile").detail == "the quiet time is shorter than a stretch of this run");
    }
}
