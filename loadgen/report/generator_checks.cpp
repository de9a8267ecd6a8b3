#include "loadgen/report/generator_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/report/figures.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr double full_core = 0.7;        // a busier process does its work late
constexpr double too_often = 0.05;       // of the time from the ramp to the judging
constexpr double full_machine = 0.9;     // of all cores
constexpr double much_of_others = 0.5;   // cores
constexpr double share_of_others = 0.2;  // of a core that other programs share with the server
constexpr double much_waiting = 0.2;     // of the time of a worker, or of a thread of the server
constexpr double much_stolen = 0.05;     // of all cores
constexpr Duration late_loop = std::chrono::milliseconds(20);
constexpr Duration standstill = std::chrono::seconds(1);

CheckResult own_check(const char* name, std::string promise, bool held, double value,
                      std::string detail) {
    return {name, std::move(promise),
            held ? CheckResult::Outcome::passed : CheckResult::Outcome::refused, value,
            std::move(detail)};
}

CheckResult not_visible(const char* name, std::string promise, std::string why) {
    return {name, std::move(promise), CheckResult::Outcome::skipped, 0, std::move(why)};
}

CheckResult check_own_cpu(const std::vector<Stretch>& stretches) {
    const char* promise = "no process of the generator was busy for 70 % of a core's time";
    const auto level = level_of(stretches, Gauge::worker_cpu_max);
    if (!level) return not_visible("generator_cpu", promise, "it was not measured");
    const double share = share_of_time(stretches, [](const Measurements& measured) {
        return measured[Gauge::worker_cpu_max] >= full_core;
    });
    std::string detail =
        fmt::format("the generator's busiest process used {:.0f} % of a core, at most {:.0f} %",
                    level->mean * 100, level->most * 100);
    if (share > 0) detail += fmt::format(", and was full for {:.0f} % of the time", share * 100);
    return own_check("generator_cpu", promise, share < too_often, level->mean, std::move(detail));
}

/// Judges seconds instead of single turns: not every turn of an event loop is counted, and one late
/// turn does no harm.
bool was_late(const Measurements& second) {
    return second[Timing::loop_lag].percentile(0.9) > late_loop ||
           second[Timing::send_lag].percentile(0.99) > late_loop;
}

CheckResult check_own_lag(const std::vector<Stretch>& stretches, const Measurements& part) {
    const double share = share_of_time(stretches, was_late);
    const Duration send = part[Timing::send_lag].percentile(0.99);
    return own_check(
        "generator_lag",
        fmt::format("the generator's event loops and messages were less than {} ms late",
                    late_loop / std::chrono::milliseconds(1)),
        share < too_often, share,
        fmt::format("the generator was later than that for {:.0f} % of the time; p99 of its "
                    "messages {}, the worst of its event loops {}",
                    share * 100, show(send), show(part[Timing::loop_lag].max())));
}

/// Includes the ramp, because a stall delays logins and the clients that are already connected.
CheckResult check_own_stalls(const RunRecord& record) {
    std::uint64_t stalls = 0;
    Duration longest{0};
    for (const Stretch& stretch : record.series) {
        stalls += stretch.measured[Count::stalls];
        longest = std::max(longest, stretch.measured[Timing::loop_lag].max());
    }
    return own_check(
        "generator_stalls", fmt::format("the generator never stood still for {}", show(standstill)),
        longest < standstill, seconds(longest),
        stalls == 0 ? fmt::format("the generator's longest delay was {}", show(longest))
                    : fmt::format("the generator stalled {} time{}, at most for {}",
                                  show_count(stalls), stalls == 1 ? "" : "s", show(longest)));
}

CheckResult check_starved(const RunRecord& record) {
    const auto starved = record.totals[Count::starved];
    return own_check(
        "generator_starved", "the generator kept its talking clients alive", starved == 0,
        static_cast<double>(starved),
        starved == 0 ? std::string("no client of the generator was left silent")
                     : fmt::format("the generator left {} of its clients silent past their limit",
                                   show_count(starved)));
}

CheckResult check_stolen(const std::vector<Stretch>& stretches) {
    const char* promise = "the machine had its cores for itself";
    const auto level = level_of(stretches, Gauge::machine_steal);
    if (!level) return not_visible("machine_steal", promise, "that can't be seen here");
    return own_check("machine_steal", promise, level->mean < much_stolen, level->mean,
                     fmt::format("other machines on the same hardware took {:.1f} % of its CPU",
                                 level->mean * 100));
}

/// Programs beside the generator and the server matter if they leave no core free, or if the
/// generator itself had to wait for them.
CheckResult check_others(const RunRecord& record, const std::vector<Stretch>& stretches) {
    const char* promise = "no other program took CPU that the run needed";
    double sum = 0;
    double time = 0;
    for (const auto& stretch : stretches) {
        const auto cores = cores_of_others(record, stretch.measured);
        if (!cores) continue;
        sum += *cores * stretch.length;
        time += stretch.length;
    }
    if (time == 0)
        return not_visible("machine_others", promise,
                           "what others used can't be told from what the server used");

    const double share = share_of_time(stretches, [&](const Measurements& measured) {
        const bool no_room = measured[Gauge::machine_busy] >= full_machine ||
                             measured[Gauge::worker_wait] >= much_waiting;
        return no_room && cores_of_others(record, measured).value_or(0) >= much_of_others;
    });
    const double waited = mean_of(stretches, [&](const Measurements& measured) {
        const bool by_others = cores_of_others(record, measured).value_or(0) >= much_of_others;
        return by_others ? std::max(0.0, measured[Gauge::worker_wait]) : 0;
    });
    std::string detail =
        fmt::format("other programs used {:.2g} of {} cores", sum / time, record.machine.cores);
    if (share > 0) detail += fmt::format(", and were in the way {:.0f} % of the time", share * 100);
    if (waited >= too_often)
        detail +=
            fmt::format("; the generator waited for a core for {:.0f} % of the time", waited * 100);
    return own_check("machine_others", promise, share < too_often && waited < too_often, sum / time,
                     std::move(detail));
}

/// The server's threads may also wait for each other or for the generator, which is the load's own
/// doing. So this only counts while other programs use enough CPU to be the cause. On the core of
/// two busy threads, another program gets a third.
CheckResult check_servers_wait(const RunRecord& record, const std::vector<Stretch>& stretches) {
    const char* promise = "other programs left the server the CPU that it needed";
    if (!record.server.on_this_machine)
        return not_visible("machine_server_wait", promise, "the server is on another machine");
    const auto level = level_of(stretches, Gauge::server_wait);
    if (!level)
        return not_visible("machine_server_wait", promise,
                           "how long the server's process waited for CPU can't be seen");
    if (std::ranges::none_of(stretches, [&](const Stretch& stretch) {
            return cores_of_others(record, stretch.measured).has_value();
        }))
        return not_visible("machine_server_wait", promise,
                           "what others used can't be told from what the server used");
    const auto has_others = [&](const Measurements& measured) {
        return cores_of_others(record, measured).value_or(0) >= share_of_others;
    };
    const double share = share_of_time(stretches, [&](const Measurements& measured) {
        return measured[Gauge::server_wait] >= much_waiting && has_others(measured);
    });
    const double waited = mean_of(stretches, [&](const Measurements& measured) {
        return has_others(measured) ? std::max(0.0, measured[Gauge::server_wait]) : 0;
    });
    std::string detail =
        fmt::format("the server was ready to run, but had no core, for {:.0f} % of the time",
                    level->mean * 100);
    if (share > 0)
        detail += fmt::format(", and other programs were in its way for {:.0f} % of the time",
                              share * 100);
    else if (waited >= too_often)
        detail += ", while other programs ran";
    return own_check("machine_server_wait", promise, share < too_often && waited < too_often,
                     level->mean, std::move(detail));
}

}  // namespace

std::vector<CheckResult> ramp_checks(const RunRecord& record) {
    const auto stretches = ramp_stretches(record);
    if (stretches.empty()) return {};
    Measurements all;
    for (const Stretch& stretch : stretches) all.merge(stretch.measured);
    return {check_own_cpu(stretches), check_own_lag(stretches, all), check_stolen(stretches),
            check_others(record, stretches), check_servers_wait(record, stretches)};
}

std::vector<CheckResult> generator_checks(const RunRecord& record) {
    const auto stretches = judged_stretches(record);
    const auto part = judged_part(record);
    return {check_own_cpu(stretches),
            check_own_lag(stretches, part),
            check_own_stalls(record),
            check_starved(record),
            check_stolen(stretches),
            check_others(record, stretches),
            check_servers_wait(record, stretches)};
}

}  // namespace pulsegate::load
