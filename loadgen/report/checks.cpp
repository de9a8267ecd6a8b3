#include "loadgen/report/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "loadgen/report/figures.h"
#include "loadgen/report/generator_checks.h"
#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

using Outcome = CheckResult::Outcome;

/// Even a slow generator sees no message twice that came once, and no message that never came.
bool cannot_be_feigned(const CheckResult& check) {
    constexpr std::array names{"protocol",       "subscribed",          "repeated",
                               "repeated_qos2",  "reordered",           "misdirected",
                               "damaged",        "acknowledged_order",  "sender",
                               "presence_order", "presence_http_order", "presence_states"};
    return std::ranges::find(names, check.name) != names.end();
}

void refuse(CheckResult& check) {
    if (check.outcome == Outcome::skipped) return;
    if (check.outcome == Outcome::failed && cannot_be_feigned(check)) return;
    check.outcome = Outcome::refused;
}

/// What a slow generator or machine may cause, and what also counts during the ramp.
struct RampFault {
    std::string_view check;
    Count count;
};
constexpr std::array ramp_faults{RampFault{"false_offline", Count::false_offline},
                                 RampFault{"pings_late", Count::pings_late},
                                 RampFault{"pings_unanswered", Count::pings_unanswered}};

/// Refuses a check with all its faults in the ramp, in which something else was the bottleneck.
void refuse_for_ramp(CheckResult& check, const RunRecord& record, const std::string& why) {
    const auto fault = std::ranges::find(ramp_faults, check.name, &RampFault::check);
    if (fault == ramp_faults.end() || check.outcome != Outcome::failed) return;
    std::uint64_t in_ramp = 0;
    for (const Stretch& stretch : ramp_stretches(record)) in_ramp += stretch.measured[fault->count];
    if (in_ramp < record.totals[fault->count]) return;
    check.outcome = Outcome::refused;
    check.detail += "; all in the ramp: " + why;
}

const CheckResult* first_refused(const std::vector<CheckResult>& checks) {
    const auto found = std::ranges::find(checks, Outcome::refused, &CheckResult::outcome);
    return found == checks.end() ? nullptr : &*found;
}

std::vector<CheckResult> server_checks(const Evidence& seen) {
    std::vector<CheckResult> checks;
    for (auto part : {connection_checks, message_checks, presence_checks, pace_checks})
        for (auto& check : part(seen)) checks.push_back(std::move(check));
    return checks;
}

std::size_t promises_judged(const std::vector<CheckResult>& checks) {
    return static_cast<std::size_t>(std::ranges::count_if(checks, [](const CheckResult& check) {
        return check.outcome != Outcome::skipped && !is_own(check);
    }));
}

std::string failures(const std::vector<CheckResult>& checks) {
    std::string text;
    for (const auto& check : checks)
        if (check.outcome == Outcome::failed)
            text +=
                fmt::format("{}“{}” ({})", text.empty() ? "" : "; ", check.promise, check.detail);
    return text;
}

std::size_t count_of(const std::vector<CheckResult>& checks, Outcome outcome) {
    return static_cast<std::size_t>(std::ranges::count(checks, outcome, &CheckResult::outcome));
}

}  // namespace

std::vector<CheckResult> judge_run(const Scenario& scenario, const RunRecord& record) {
    auto checks =
        server_checks({scenario, record, measured_stretches(record), measured_part(record)});
    auto own = generator_checks(record);
    if (first_refused(own)) std::ranges::for_each(checks, refuse);
    const auto of_ramp = ramp_checks(record);
    if (const auto* bottleneck_of_ramp = first_refused(of_ramp))
        for (CheckResult& check : checks)
            refuse_for_ramp(check, record, bottleneck_of_ramp->detail);
    std::ranges::move(own, std::back_inserter(checks));
    return checks;
}

std::optional<std::string> bottleneck(const RunRecord& record) {
    const auto own = generator_checks(record);
    const auto* check = first_refused(own);
    if (!check) return {};
    return check->detail;
}

bool is_own(const CheckResult& check) {
    return check.name.starts_with("generator_") || check.name.starts_with("machine_");
}

Outcome overall(const std::vector<CheckResult>& checks) {
    if (count_of(checks, Outcome::failed) > 0) return Outcome::failed;
    if (count_of(checks, Outcome::refused) > 0) return Outcome::refused;
    return count_of(checks, Outcome::passed) > 0 ? Outcome::passed : Outcome::skipped;
}

std::string verdict_sentence(const RunRecord& record) {
    const auto& checks = record.checks;
    const auto why = bottleneck(record);
    switch (overall(checks)) {
        case Outcome::failed:
            return fmt::format(
                "The server broke {} of {} promises: {}.{}", count_of(checks, Outcome::failed),
                promises_judged(checks), failures(checks),
                why ? fmt::format(" The rest can't be judged: {}.", *why) : std::string());
        case Outcome::refused:
            if (why)
                return fmt::format(
                    "No verdict on the server, because the generator or its machine was the "
                    "bottleneck: {}. Run it again on a quieter machine, with more workers or with "
                    "less load.",
                    *why);
            return fmt::format("No verdict: {}: {}.", first_refused(checks)->promise,
                               first_refused(checks)->detail);
        case Outcome::passed:
            return fmt::format(
                "The server kept every promise that was checked: {} clients, {} packets received "
                "and sent a second.",
                show_count(record.totals[Count::entered]),
                show_count(static_cast<std::uint64_t>(mean_rate(record, Count::packets_sent) +
                                                      mean_rate(record, Count::packets_received))));
        case Outcome::skipped: break;
    }
    return "Nothing could be checked.";
}

}  // namespace pulsegate::load
