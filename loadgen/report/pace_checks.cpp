#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

using Outcome = CheckResult::Outcome;

// -- the objective

/// True if at least half of p99 is the generator's own lag.
bool mostly_own_lag(const Measurements& part) {
    return part[Timing::send_lag].percentile(0.99) * 2 >= part[Timing::message].percentile(0.99);
}

CheckResult check_objective(const Evidence& seen) {
    const auto within = seen.scenario.message_within;
    if (within == Duration::zero())
        return skipped("latency", "messages arrive in time",
                       "the scenario does not ask for it ('message-within')");
    const auto promise =
        fmt::format("99 % of the messages arrived within {} of their planned time", show(within));
    const auto& times = seen.part[Timing::message];
    if (times.empty()) return skipped("latency", promise, "no messages arrived");
    const Duration p99 = times.percentile(0.99);
    CheckResult check{"latency", promise, p99 <= within ? Outcome::passed : Outcome::failed,
                      seconds(p99), fmt::format("p99 {}", show(p99))};
    if (check.outcome == Outcome::failed && mostly_own_lag(seen.part)) {
        check.outcome = Outcome::refused;
        check.detail += fmt::format(", of which the generator's own lag is {}",
                                    show(seen.part[Timing::send_lag].percentile(0.99)));
    }
    return check;
}

// -- the storm

CheckResult check_back(const Evidence& seen) {
    const auto within = seen.scenario.storm_within;
    const auto promise = fmt::format("the storm's clients are all back within {}", show(within));
    const auto vanished = seen[Count::vanished];
    if (vanished == 0) return skipped("storm_back", promise, "there was no storm");

    const auto& back = seen[Timing::back_again];
    const auto missing = vanished - std::min(vanished, back.count());
    const auto detail = fmt::format("{} of {}, the last one after {}", show_count(back.count()),
                                    show_count(vanished), show(back.max()));
    if (missing > 0 && seen.record.interrupted)
        return skipped("storm_back", promise, detail + "; the run was interrupted");
    const bool held = missing == 0 && back.max() <= within;
    return {"storm_back", promise, held ? Outcome::passed : Outcome::failed, seconds(back.max()),
            detail};
}

/// Only stretches that lie entirely in this part count. In a long run, a stretch may belong to two
/// parts.
Measurements all_within(const RunRecord& record, double from, double to) {
    return between(whole_stretches(record.series, from, to), from, to);
}

/// A message belongs to the second for which it was planned. The second in which the storm begins
/// belongs to the storm.
CheckResult judge_storm(const Evidence& seen, const RunRecord::Storm& storm, Duration quiet,
                        const std::string& promise) {
    const auto during =
        all_within(seen.record, std::floor(storm.part.from), std::ceil(storm.part.to));
    if (during[Timing::message].empty() || quiet == Duration::zero())
        return skipped("storm_latency", promise, "no messages to compare");

    const Duration p99 = during[Timing::message].percentile(0.99);
    const double ratio = seconds(p99) / seconds(quiet);
    const bool held = ratio <= seen.scenario.storm_factor;
    CheckResult check{
        "storm_latency", promise, held ? Outcome::passed : Outcome::failed, ratio,
        fmt::format("{}{}{} against {}, {:.1f} times; the generator's own lag: {}", storm.group,
                    storm.group.empty() ? "" : ": ", show(p99), show(quiet), ratio,
                    show(during[Timing::send_lag].percentile(0.99)))};
    if (!held && mostly_own_lag(during)) check.outcome = Outcome::refused;
    return check;
}

bool milder(const CheckResult& one, const CheckResult& other) {
    const auto weight = [](Outcome outcome) {
        constexpr std::array order{Outcome::skipped, Outcome::passed, Outcome::refused,
                                   Outcome::failed};
        return std::ranges::find(order, outcome) - order.begin();
    };
    return std::pair(weight(one.outcome), one.value) <
           std::pair(weight(other.outcome), other.value);
}

/// Judges the worst of several storms.
CheckResult check_storm_latency(const Evidence& seen) {
    const auto promise =
        fmt::format("p99 of messages during a storm at most {:.4g} times the quiet one",
                    seen.scenario.storm_factor);
    const auto storms = seen.record.storms();
    if (storms.empty()) return skipped("storm_latency", promise, "there was no storm");

    const auto before =
        all_within(seen.record, seen.record.measured().from, std::floor(storms.front().part.from));
    const Duration quiet = before[Timing::message].percentile(0.99);
    std::vector<CheckResult> judged;
    judged.reserve(storms.size());
    for (const auto& storm : storms) judged.push_back(judge_storm(seen, storm, quiet, promise));
    return *std::ranges::max_element(judged, milder);
}

// -- something that delays everything

constexpr Duration small_delay = std::chrono::milliseconds(2);
constexpr std::uint64_t enough_pings = 10;

/// If even the quickest answer takes much longer than the network, something holds answers back.
CheckResult check_delay(const Evidence& seen) {
    const char* promise = "nothing delays what the server answers";
    const auto& pings = seen[Timing::ping];
    const auto& connects = seen[Timing::tcp_connect];
    if (pings.count() < enough_pings || connects.empty())
        return skipped("delay", promise, "too few pings to tell");

    const Duration extra = pings.min() - connects.min();
    const auto figures = fmt::format("the quickest ping took {}, the quickest TCP connect {}",
                                     show(pings.min()), show(connects.min()));
    CheckResult check{"delay", promise, Outcome::passed, std::max(0.0, seconds(extra)), figures};
    if (extra < small_delay || pings.min() < connects.min() * 3) return check;

    check.outcome = Outcome::failed;
    const auto& messages = seen[Timing::message];
    if (messages.empty())
        check.detail += fmt::format(": something adds {} to each answer", show(extra));
    else if (messages.min() * 2 < extra)
        check.detail += fmt::format(
            "; a message took only {}: the server holds back its answers to pings by {}",
            show(messages.min()), show(extra));
    else
        check.detail += fmt::format(
            ", the quickest message {}: something between generator and server, or the server "
            "itself, holds everything back by {}",
            show(messages.min()), show(extra));
    return check;
}

}  // namespace

std::vector<CheckResult> pace_checks(const Evidence& seen) {
    return {check_objective(seen), check_back(seen),  check_storm_latency(seen),
            hostile_check(seen),   stall_check(seen), check_delay(seen)};
}

}  // namespace pulsegate::load
