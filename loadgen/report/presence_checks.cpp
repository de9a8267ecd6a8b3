#include <fmt/format.h>

#include <algorithm>

#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

bool anybody_watches(const Scenario& scenario) {
    return std::ranges::any_of(scenario.groups,
                               [](const Group& group) { return group.watches > 0; });
}

/// Why presence is not judged; empty if it is.
std::string why_no_presence(const Evidence& seen) {
    if (seen[Count::presence_changes] + seen[Count::presence_missing] +
            seen[Count::presence_unseen] >
        0)
        return {};
    return anybody_watches(seen.scenario) ? "the server tells nothing of presence"
                                          : "nobody watched others";
}

CheckResult check_detection(const Evidence& seen) {
    const Duration bound = limits_of(seen.scenario).most + closing_tick + seen.scenario.tolerance;
    const auto promise =
        fmt::format("watchers were told of 99 % of those who fell silent within {}", show(bound));
    const auto& times = seen[Timing::detection];
    if (times.empty())
        return skipped("presence_detection", promise, "nobody who was watched fell silent");
    const Duration p99 = times.percentile(0.99);
    return {"presence_detection", promise,
            p99 <= bound ? CheckResult::Outcome::passed : CheckResult::Outcome::failed,
            seconds(p99),
            fmt::format("p99 {} of {} clients, the slowest {}", show(p99),
                        show_count(times.count()), show(times.max()))};
}

}  // namespace

std::vector<CheckResult> presence_checks(const Evidence& seen) {
    struct Column {
        const char* name;
        const char* promise;
        Count count;
        const char* what;
    };
    constexpr Column columns[] = {
        {"presence_false_offline", "nobody alive was shown as offline",
         Count::presence_false_offline, "shown as offline"},
        {"presence_ghosts", "nobody was shown as online who was gone", Count::presence_ghosts,
         "shown as online"},
        {"presence_order", "watchers never saw an older version behind a newer one",
         Count::presence_out_of_order, "out of order"},
        {"presence_missing", "watchers were told of every change", Count::presence_missing,
         "missing"},
        {"presence_unseen", "everybody who was online was shown at all", Count::presence_unseen,
         "never shown"},
    };
    const auto why = why_no_presence(seen);
    std::vector<CheckResult> checks;
    for (const auto& [name, promise, count, what] : columns) {
        if (!why.empty())
            checks.push_back(skipped(name, promise, why));
        else
            checks.push_back(none_of(name, promise, seen[count],
                                     fmt::format("{} {}, {} changes seen", show_count(seen[count]),
                                                 what, show_count(seen[Count::presence_changes]))));
    }
    checks.push_back(check_detection(seen));
    return checks;
}

}  // namespace pulsegate::load
