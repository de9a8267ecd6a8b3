#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/report/checks.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

/// 100 clients for 40 s, of which ten fall silent; a storm; all of it as it should be.
struct JudgedRun {
    Scenario scenario;
    RunRecord record;

    JudgedRun() {
        Group group;
        group.clients = 100;
        group.messages = 50;
        group.qos = {0.2, 0.4, 0.4};
        group.watches = 2;
        group.version = Version::v5_0;
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
        totals.add(Count::messages_crossed, 100);
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
        second.set(Gauge::server_wait, 0.01);
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
    CheckResult::Outcome outcome(std::string_view name) const { return check(name).outcome; }

    /// The names of those that did not pass.
    std::vector<std::string> not_passed() const {
        std::vector<std::string> names;
        for (const auto& each : checks())
            if (each.outcome != CheckResult::Outcome::passed) names.push_back(each.name);
        return names;
    }
    /// Does this check fail, and no other one?
    bool only_fails(std::string_view name) const {
        return not_passed() == std::vector{std::string(name)} &&
               outcome(name) == CheckResult::Outcome::failed &&
               overall(checks()) == CheckResult::Outcome::failed;
    }
};

}  // namespace pulsegate::load
