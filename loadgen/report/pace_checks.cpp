#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

using Outcome = CheckResult::Outcome;

// -- the objective

/// Of a slow p99, at least half must be the server's.
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

/// By the second in which a message was planned: the second of the storm's beginning is the
/// storm's.
CheckResult check_storm_latency(const Evidence& seen) {
    const double factor = seen.scenario.storm_factor;
    const auto promise =
        fmt::format("p99 of messages during the storm at most {:.4g} times the quiet one", factor);
    const auto begins = seen.record.marked(marks::storm);
    if (!begins) return skipped("storm_latency", promise, "there was no storm");
    const double over = seen.record.marked(marks::storm_over)
                            .value_or(*begins + seconds(seen[Timing::back_again].max()));

    const auto part = seen.record.measured();
    const auto quiet = between(seen.record.series, part.from, std::floor(*begins));
    const auto storm = between(seen.record.series, std::floor(*begins), std::ceil(over));
    const auto before = quiet[Timing::message].percentile(0.99);
    const auto during = storm[Timing::message].percentile(0.99);
    if (before == Duration::zero() || storm[Timing::message].empty())
        return skipped("storm_latency", promise, "no messages to compare");

    const double ratio = seconds(during) / seconds(before);
    CheckResult check{
        "storm_latency", promise, ratio <= factor ? Outcome::passed : Outcome::failed, ratio,
        fmt::format("{} against {}, {:.1f} times; the generator's own lag: {}", show(during),
                    show(before), ratio, show(storm[Timing::send_lag].percentile(0.99)))};
    if (check.outcome == Outcome::failed && mostly_own_lag(storm)) check.outcome = Outcome::refused;
    return check;
}

// -- something that delays everything

constexpr Duration small_delay = std::chrono::milliseconds(2);
constexpr std::uint64_t enough_pings = 10;

/// Where even the quickest answer takes much longer than the network, somebody holds it back.
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
