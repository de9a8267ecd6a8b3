#include <doctest/doctest.h>

#include <algorithm>

#include "loadgen/report/checks.h"
#include "tests/support/judged_run.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

using Outcome = CheckResult::Outcome;

/// A run with this many of what must not be.
JudgedRun with(Count fault, std::uint64_t many = 1) {
    JudgedRun run;
    run.record.totals.add(fault, many);
    return run;
}

}  // namespace

TEST_CASE_FIXTURE(JudgedRun, "a run without a fault passes every check") {
    CHECK(not_passed().empty());
    CHECK(overall(checks()) == Outcome::passed);
    CHECK_FALSE(bottleneck(record));
}

TEST_CASE_FIXTURE(JudgedRun, "a server that shows no presence at all is not judged by it") {
    CHECK_FALSE(shows_no_presence(scenario, record));
    record.totals = {};
    record.totals.add(Count::presence_unseen, 100);
    CHECK(outcome("presence_unseen") == Outcome::skipped);
    CHECK(shows_no_presence(scenario, record));
}

TEST_CASE_FIXTURE(JudgedRun, "a server that refuses presence to some clients only is found") {
    record.totals.add(Count::presence_filters_refused, 200);
    CHECK(not_passed().empty());
    CHECK(check("subscribed").detail == "0 refused, and 200 of 200 for presence");
    record.totals.add(Count::presence_filters_granted, 100);  // each user may see itself, perhaps
    CHECK(not_passed().empty());
    record.totals.add(Count::presence_filters_granted, 101);
    CHECK(only_fails("subscribed"));
    CHECK(check("subscribed").value == 200);
}

TEST_CASE_FIXTURE(JudgedRun, "questions for presence fail if none of them is answered") {
    record.totals = {};
    record.totals.add(Count::presence_unanswered);
    CHECK(outcome("presence_http_answers") == Outcome::failed);
}

TEST_CASE_FIXTURE(JudgedRun, "servers that pass on no message are reported as no cluster") {
    record.totals = {};
    CHECK(outcome("crossed") == Outcome::skipped);
    record.totals.add(Count::messages_lost_crossing, 3);
    CHECK(check("crossed").detail ==
          "3 lost of 3; the servers do not seem to be nodes of one cluster");
    record.totals.add(Count::messages_crossed, 7);
    CHECK(check("crossed").detail == "3 lost of 10");
}

TEST_CASE("each fault of a server that is counted has a column of its own") {
    CHECK(with(Count::false_offline).only_fails("false_offline"));
    CHECK(with(Count::violations).only_fails("protocol"));
    CHECK(with(Count::filters_refused).only_fails("subscribed"));
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
    CHECK(with(Count::messages_lost_crossing).only_fails("crossed"));
    CHECK(with(Count::messages_repeated).only_fails("repeated"));
    CHECK(with(Count::messages_repeated_qos2).only_fails("repeated_qos2"));
    CHECK(with(Count::messages_reordered).only_fails("reordered"));
    CHECK(with(Count::messages_misdirected).only_fails("misdirected"));
    CHECK(with(Count::messages_damaged).only_fails("damaged"));
    CHECK(with(Count::messages_forged).only_fails("sender"));
    CHECK(with(Count::messages_late).only_fails("messages_late"));
    CHECK(with(Count::unacknowledged).only_fails("acknowledged"));
    CHECK(with(Count::acknowledged_late).only_fails("acknowledged_late"));
    CHECK(with(Count::acknowledged_disorderly).only_fails("acknowledged_order"));
    CHECK(with(Count::unreleased).only_fails("released"));
    CHECK(with(Count::publishes_refused).only_fails("acknowledged"));
    CHECK(with(Count::presence_false_offline).only_fails("presence_false_offline"));
    CHECK(with(Count::presence_ghosts).only_fails("presence_ghosts"));
    CHECK(with(Count::presence_out_of_order).only_fails("presence_order"));
    CHECK(with(Count::presence_contradicted).only_fails("presence_states"));
    CHECK(with(Count::presence_missing).only_fails("presence_missing"));
    CHECK(with(Count::presence_late).only_fails("presence_late"));
    CHECK(with(Count::presence_outdated).only_fails("presence_first"));
    CHECK(with(Count::vanished).only_fails("storm_back"));
}

TEST_CASE_FIXTURE(JudgedRun, "only Pulsegate is judged by what it alone promises") {
    record.totals = {};
    record.totals.add(Count::entered, 100);
    record.totals.add(Count::closed_late, 3);
    record.totals.add(Count::closed_early, 2);
    record.totals.add(Count::messages_forged);
    CHECK(outcome("sender") == Outcome::skipped);
    CHECK(outcome("expiry_late") == Outcome::skipped);
    CHECK(check("expiry_late").detail.starts_with("only Pulsegate promises this"));
    CHECK(outcome("expiry_early") == Outcome::failed);  // this is MQTT's own rule
    for (const char* other : {"/usr/sbin/mosquitto -c /etc/pulsegate", "pulsegate-loadgen", ""}) {
        record.server.command = other;
        CHECK(outcome("expiry_late") == Outcome::skipped);
    }
    SUBCASE("by its program") { record.server.command = "build/pulsegate --shards 2"; }
    SUBCASE("by its program in the path") { record.server.command = "pulsegate"; }
    SUBCASE("by its metrics") { record.server.metrics = "http://127.0.0.1:8080/metrics"; }
    SUBCASE("by the presence that it shows") { record.totals.add(Count::presence_changes); }
    SUBCASE("by its API") { record.totals.add(Count::presence_asked); }
    CHECK(outcome("expiry_late") == Outcome::failed);
    CHECK(outcome("sender") == Outcome::failed);
}

TEST_CASE_FIXTURE(JudgedRun, "messages of MQTT 3.1.1 can't name their sender") {
    scenario.groups[0].version = pulsegate::Version::v3_1_1;
    CHECK(outcome("sender") == Outcome::skipped);
}

TEST_CASE_FIXTURE(JudgedRun, "clients that never connected fail the check") {
    scenario.groups[0].clients = 101;
    CHECK(only_fails("connected"));
    CHECK(check("connected").value == 1);
}

TEST_CASE_FIXTURE(JudgedRun, "hostile clients need not come in") {
    Group hostile;
    hostile.clients = 7;
    hostile.hostile = Hostile::half_open;
    scenario.groups.push_back(hostile);
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(JudgedRun,
                  "an event that was still to come when the run was interrupted is no fault") {
    record.interrupted = true;
    scenario.groups[0].clients = 200;
    record.totals.add(Count::vanished, 3);
    CHECK(outcome("connected") == Outcome::passed);
    CHECK(outcome("storm_back") == Outcome::skipped);
    record.totals.add(Count::connect_failed);
    CHECK(outcome("connected") == Outcome::failed);
}

TEST_CASE_FIXTURE(JudgedRun, "watchers that learn too late fail the detection") {
    record.totals.add(Timing::detection, 31101ms);
    CHECK(only_fails("presence_detection"));
}

TEST_CASE_FIXTURE(JudgedRun, "messages slower than asked for fail the objective") {
    each_second([](Measurements& second) { second.add(Timing::message, 101ms); });
    CHECK(not_passed() == std::vector<std::string>{"latency"});
    CHECK(outcome("latency") == Outcome::failed);
}

TEST_CASE_FIXTURE(JudgedRun, "messages that the generator itself sent late prove nothing") {
    each_second([](Measurements& second) {
        second.add(Timing::message, 101ms);
        second.add(Timing::send_lag, 60ms);
    });
    CHECK(outcome("latency") == Outcome::refused);
    CHECK(bottleneck(record));
}

TEST_CASE_FIXTURE(JudgedRun,
                  "a server that stands still for a second is found, once for each time") {
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

TEST_CASE_FIXTURE(JudgedRun, "a server that was asked for nothing has not stalled") {
    each_second([](Measurements& second) { second = {}; });
    each_second([](Measurements& second) { second.add(Count::packets_received, 50); });
    at(13).set(Gauge::server_silence, 1.8);
    CHECK(outcome("server_stalled") == Outcome::passed);
}

TEST_CASE_FIXTURE(JudgedRun,
                  "a server that stands still for good is found, because answers are due") {
    for (std::size_t second = 40; second < 45; ++second) {
        Measurements silent;
        silent.add(Count::pings_sent, 5);
        silent.set(Gauge::server_silence, static_cast<double>(second) - 39);
        at(second) = silent;
    }
    CHECK(outcome("server_stalled") == Outcome::failed);
    CHECK(check("server_stalled").value == 5);
}

TEST_CASE_FIXTURE(JudgedRun, "without the workers' own measure, a second without packets is one") {
    for (auto& stretch : record.series) {
        Measurements second;
        second.add(Count::packets_received, stretch.second == 12 || stretch.second == 13 ? 0 : 99);
        second.add(Count::pings_sent, 5);
        stretch.measured = second;
    }
    CHECK(outcome("server_stalled") == Outcome::failed);
    CHECK(check("server_stalled").value == 2);
}

TEST_CASE_FIXTURE(JudgedRun,
                  "a silence while the generator stood still is not the server's fault") {
    at(13).set(Gauge::server_silence, 1.5);
    at(13).add(Timing::ping, 1400ms);
    at(12).add(Timing::loop_lag, 900ms);
    CHECK(outcome("server_stalled") == Outcome::refused);
}

TEST_CASE_FIXTURE(JudgedRun, "if packets are few, a second without one is no fault") {
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
JudgedRun delayed_run(Duration ping, Duration message) {
    JudgedRun run;
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

TEST_CASE("a distant server's latency is not reported as a delay") {
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
bool refuses(const JudgedRun& run, std::string_view own) {
    const auto checks = run.checks();
    return run.outcome(own) == Outcome::refused && run.outcome("lost") == Outcome::refused &&
           run.outcome("connected") == Outcome::refused && overall(checks) == Outcome::refused &&
           bottleneck(run.record) == run.check(own).detail;
}

}  // namespace

TEST_CASE_FIXTURE(JudgedRun, "a worker that fills its core refuses the verdict") {
    each_second([](Measurements& second) { second.set(Gauge::worker_cpu_max, 0.7); });
    CHECK(refuses(*this, "generator_cpu"));
}

TEST_CASE_FIXTURE(JudgedRun, "a worker that is full for a moment does not") {
    at(10).set(Gauge::worker_cpu_max, 1);
    at(11).set(Gauge::worker_cpu_max, 1);
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(JudgedRun, "a worker that is full for a twentieth of the time refuses it") {
    for (const std::size_t second : {10, 11, 12}) at(second).set(Gauge::worker_cpu_max, 0.8);
    CHECK(refuses(*this, "generator_cpu"));
}

TEST_CASE_FIXTURE(JudgedRun, "a generator that stood still in the drain refuses the verdict") {
    at(47).add(Timing::loop_lag, 3s);
    CHECK(refuses(*this, "generator_stalls"));
}

TEST_CASE_FIXTURE(JudgedRun, "a generator that stood still in the ramp refuses the verdict") {
    at(2).add(Timing::loop_lag, 3s);
    CHECK(refuses(*this, "generator_stalls"));
}

TEST_CASE_FIXTURE(JudgedRun, "a generator that was busy in the ramp does not") {
    for (std::size_t second = 0; second < 5; ++second) at(second).set(Gauge::worker_cpu_max, 1);
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(JudgedRun, "event loops that are late refuse the verdict") {
    each_second([](Measurements& second) { second.add(Timing::loop_lag, 30ms); });
    CHECK(refuses(*this, "generator_lag"));
}

TEST_CASE_FIXTURE(JudgedRun, "a generator that stood still for a second refuses the verdict") {
    for (int turn = 0; turn < 1000; ++turn) at(9).add(Timing::loop_lag, 1ms);
    at(10).add(Timing::loop_lag, 1100ms);
    CHECK(refuses(*this, "generator_stalls"));
}

TEST_CASE("clients that the generator left silent refuse the verdict") {
    CHECK(refuses(with(Count::starved), "generator_starved"));
}

TEST_CASE_FIXTURE(JudgedRun, "stolen CPU refuses the verdict") {
    each_second([](Measurements& second) { second.set(Gauge::machine_steal, 0.12); });
    CHECK(refuses(*this, "machine_steal"));
}

TEST_CASE_FIXTURE(JudgedRun,
                  "programs beside the run refuse the verdict if they leave no core free") {
    each_second([](Measurements& second) { second.set(Gauge::machine_busy, 0.7); });
    CHECK(not_passed().empty());  // more than two cores of four, but one is free
    each_second([](Measurements& second) { second.set(Gauge::machine_busy, 0.95); });
    CHECK(refuses(*this, "machine_others"));
}

TEST_CASE_FIXTURE(JudgedRun, "programs beside the run refuse the verdict if the generator waits") {
    each_second([](Measurements& second) {
        second.set(Gauge::machine_busy, 0.4);
        second.set(Gauge::worker_wait, 0.3);
    });
    CHECK(refuses(*this, "machine_others"));
}

TEST_CASE_FIXTURE(JudgedRun, "programs beside the run refuse the verdict if the server waits") {
    each_second([](Measurements& second) {
        second.set(Gauge::machine_busy, 0.4);
        second.set(Gauge::server_wait, 0.6);
    });
    CHECK(refuses(*this, "machine_server_wait"));
    CHECK(check("machine_server_wait").detail ==
          "the server was ready to run, but had no core, for 60 % of the time, and other programs "
          "were in its way for 100 % of the time");
}

TEST_CASE_FIXTURE(JudgedRun, "many short waits refuse the verdict, too") {
    each_second([](Measurements& second) { second.set(Gauge::machine_busy, 0.4); });
    SUBCASE("of the generator") {
        each_second([](Measurements& second) { second.set(Gauge::worker_wait, 0.06); });
        CHECK(refuses(*this, "machine_others"));
    }
    SUBCASE("of the server") {
        each_second([](Measurements& second) { second.set(Gauge::server_wait, 0.06); });
        CHECK(refuses(*this, "machine_server_wait"));
    }
    SUBCASE("but not a few") {
        each_second([](Measurements& second) {
            second.set(Gauge::worker_wait, 0.04);
            second.set(Gauge::server_wait, 0.04);
        });
        CHECK(not_passed().empty());
    }
}

TEST_CASE_FIXTURE(JudgedRun, "a server is not blamed for what others cause during the ramp") {
    at(2).add(Count::pings_late, 3);
    record.totals.add(Count::pings_late, 3);
    SUBCASE("nobody is in its way") { CHECK(only_fails("pings_late")); }
    SUBCASE("others are") {
        for (std::size_t second = 1; second < 5; ++second) {
            at(second).set(Gauge::machine_busy, 0.4);
            at(second).set(Gauge::server_wait, 0.3);
        }
        CHECK(not_passed() == std::vector<std::string>{"pings_late"});
        CHECK(outcome("pings_late") == Outcome::refused);
        record.totals.add(Count::pings_late);  // after the ramp
        CHECK(only_fails("pings_late"));
    }
}

TEST_CASE_FIXTURE(JudgedRun, "a server that only waits for its own threads is judged") {
    each_second([](Measurements& second) { second.set(Gauge::server_wait, 0.6); });
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(JudgedRun, "a server elsewhere is not asked how long it waited") {
    record.server.on_this_machine = false;
    CHECK(outcome("machine_server_wait") == Outcome::skipped);
    record.server.on_this_machine = true;
    each_second([](Measurements& second) { second.set(Gauge::server_wait, -1); });
    CHECK(outcome("machine_server_wait") == Outcome::skipped);
    CHECK_FALSE(bottleneck(record));
}

TEST_CASE_FIXTURE(JudgedRun,
                  "a machine that is full of the server and the generator is no obstacle") {
    each_second([](Measurements& second) {
        second.set(Gauge::machine_busy, 0.99);
        second.set(Gauge::server_cpu, 3.5);
        second.set(Gauge::worker_cpu, 0.4);
    });
    CHECK(not_passed().empty());
}

TEST_CASE_FIXTURE(JudgedRun, "if the server's CPU can't be seen, other programs are not blamed") {
    each_second([](Measurements& second) {
        second.set(Gauge::machine_busy, 0.99);
        second.set(Gauge::server_cpu, -1);
    });
    CHECK(outcome("machine_others") == Outcome::skipped);
}

TEST_CASE("faults that slowness can't cause fail even if the generator was the bottleneck") {
    auto run = with(Count::messages_repeated_qos2);
    run.record.totals.add(Count::starved);
    run.record.totals.add(Count::messages_lost);
    CHECK(run.outcome("repeated_qos2") == Outcome::failed);
    CHECK(run.outcome("lost") == Outcome::refused);
    CHECK(overall(run.checks()) == Outcome::failed);
}

TEST_CASE("a check that does not apply to a scenario is skipped, and says why") {
    JudgedRun run;
    run.scenario.groups[0].qos = {1, 0, 0};
    run.scenario.groups[0].watches = 0;
    run.scenario.message_within = {};
    run.record.totals = {};
    run.record.totals.add(Count::entered, 100);
    run.record.marks.erase(run.record.marks.begin() + 1, run.record.marks.begin() + 3);
    for (const char* name :
         {"session_lost", "expiry_early", "expiry_late", "expiry_never", "pings_late", "lost",
          "crossed", "repeated", "repeated_qos2", "reordered", "released", "acknowledged",
          "presence_ghosts", "presence_detection", "latency", "storm_back", "storm_latency",
          "delay"}) {
        CAPTURE(name);
        CHECK(run.outcome(name) == Outcome::skipped);
        CHECK_FALSE(run.check(name).detail.empty());
    }
    CHECK(overall(run.checks()) == Outcome::passed);
}

TEST_CASE("a fault that was counted is found, whatever the scenario sends") {
    const auto fails = [](const char* name, Count fault) {
        JudgedRun run;
        run.scenario.groups[0].messages = 0;
        run.record.totals = {};
        run.record.totals.add(Count::entered, 100);
        run.record.totals.add(fault);
        return run.outcome(name) == Outcome::failed;
    };
    CHECK(fails("lost", Count::messages_lost));
    CHECK(fails("repeated", Count::messages_repeated));
    CHECK(fails("repeated_qos2", Count::messages_repeated_qos2));
    CHECK(fails("reordered", Count::messages_reordered));
    CHECK(fails("misdirected", Count::messages_misdirected));
    CHECK(fails("damaged", Count::messages_damaged));
    CHECK(fails("released", Count::unreleased));
    CHECK(fails("acknowledged", Count::unacknowledged));
    // At QoS 0 only the generator itself refuses: a message that is too large for the server.
    CHECK_FALSE(fails("acknowledged", Count::publishes_refused));
}

TEST_CASE("the verdict says in a sentence what matters most") {
    const auto verdict = [](JudgedRun run) {
        run.record.checks = run.checks();
        return verdict_sentence(run.record);
    };
    CHECK(verdict(JudgedRun()).starts_with("The server kept every promise"));
    const auto failed = verdict(with(Count::messages_lost, 3));
    CHECK(failed.find("every message arrived") != std::string::npos);
    CHECK(failed.find("3 lost") != std::string::npos);
    CHECK(verdict(with(Count::starved)).starts_with("No verdict"));
}
