#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>

#include "loadgen/report/hostile_effect.h"
#include "loadgen/report/judging.h"
#include "loadgen/report/labels.h"
#include "loadgen/scenario/values.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// A client that is served within this many seconds is not harmed, even if it was much faster
/// before.
constexpr double harmless = 0.01;

/// "200 garbage and 50 half-open clients".
std::string hostile_clients_text(const Scenario& scenario) {
    std::map<std::string_view, std::uint64_t> kinds;
    for (const Group& group : scenario.groups)
        if (group.hostile != Hostile::none) kinds[name_of(group.hostile)] += group.clients;
    std::string text;
    for (const auto& [kind, count] : kinds)
        text += fmt::format("{}{} {}", text.empty() ? "" : " and ", show_count(count), kind);
    return text + " clients";
}

/// "p99 of messages rose from 2.0 ms to 3.0 ms".
std::string change_text(std::string_view what, double before, double with) {
    return fmt::format("{} {} from {} to {}", what, with > before ? "rose" : "fell",
                       show(from_seconds(before)), show(from_seconds(with)));
}

/// How many times slower the clients became; 0 if the slowdown does not matter.
struct Slowdown {
    double times = 0;
    bool of_generator = false;  ///< at least half of the new time is its own lag
    std::string text;
};

Duration own_lag(const Measurements& with) {
    return std::max(with[Timing::send_lag].percentile(0.99),
                    with[Timing::loop_lag].percentile(0.99));
}

Slowdown slowdown_of(const HostileEffect& effect, Timing timing, std::string_view what) {
    const auto before = effect.before.percentile(timing, 0.99);
    const auto with = effect.with.percentile(timing, 0.99);
    if (!before || !with || *before <= 0) return {};
    return {*with <= harmless ? 0 : *with / *before,
            seconds(own_lag(effect.with.measured)) * 2 >= *with, change_text(what, *before, *with)};
}

CheckResult::Outcome judged(std::initializer_list<Slowdown> slowdowns, double factor) {
    auto outcome = CheckResult::Outcome::passed;
    for (const Slowdown& each : slowdowns) {
        if (each.times <= factor) continue;
        if (!each.of_generator) return CheckResult::Outcome::failed;
        outcome = CheckResult::Outcome::refused;
    }
    return outcome;
}

}  // namespace

CheckResult hostile_check(const Evidence& seen) {
    const double factor = seen.scenario.hostile_factor;
    const auto promise = fmt::format(
        "hostile clients slow down nobody else: p99 at most {:.4g} times the one before, or {}",
        factor, show(from_seconds(harmless)));
    const auto effect = hostile_effect(seen.record);
    if (!effect) return skipped("hostile", promise, why_no_hostile_effect(seen.record));
    const auto messages = slowdown_of(*effect, Timing::message, "p99 of messages");
    const auto pings = slowdown_of(*effect, Timing::ping, "p99 of pings");
    if (messages.text.empty() && pings.text.empty())
        return skipped("hostile", promise, "no messages or pings to compare");

    std::string detail = "with " + hostile_clients_text(seen.scenario);
    const char* comma = " ";
    for (const auto& each : {messages.text, pings.text})
        if (!each.empty()) detail += std::exchange(comma, ", ") + each;
    if (effect->before.server_cpu && effect->with.server_cpu)
        detail += fmt::format(", the server's CPU went from {} to {}",
                              show_cores(*effect->before.server_cpu),
                              show_cores(*effect->with.server_cpu));
    return {"hostile", promise, judged({messages, pings}, factor),
            std::max(messages.times, pings.times), detail};
}

}  // namespace pulsegate::load
