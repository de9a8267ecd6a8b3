#include <fmt/format.h>

#include <algorithm>

#include "loadgen/report/checks.h"
#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

bool anybody_watches(const Scenario& scenario) {
    return std::ranges::any_of(scenario.groups,
                               [](const Group& group) { return group.watches > 0; });
}

/// Why presence is not judged; empty if it is judged. Only the watchers of all workers together can
/// tell a server without presence from a server that hides a user's presence.
std::string why_no_presence(const Evidence& seen) {
    if (seen[Count::presence_changes] > 0) return {};
    return shows_no_presence(seen.scenario, seen.record) ? "the server tells nothing of presence"
                                                         : "nobody watched others";
}

CheckResult check_detection(const Evidence& seen) {
    const Duration bound = limits_of(seen.scenario).most + closing_tick + seen.scenario.tolerance;
    const auto promise = fmt::format(
        "within {}, watchers were told of 99 % of the users that fell silent", show(bound));
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

CheckResult check_answers(const Evidence& seen) {
    const char* promise = "HTTP answered every question about presence";
    const auto without = seen[Count::presence_unanswered];
    if (seen[Count::presence_asked] + without == 0)
        return skipped("presence_http_answers", promise, "no presence could be asked for (--http)");
    return none_of("presence_http_answers", promise, without,
                   fmt::format("no answer for {} users", show_count(without)));
}

struct Column {
    const char* name;
    const char* promise;
    Count count;
    const char* what;
};

std::vector<CheckResult> watchers_checks(const Evidence& seen) {
    constexpr Column columns[] = {
        {"presence_false_offline", "no living user was shown as offline",
         Count::presence_false_offline, "shown as offline"},
        {"presence_ghosts", "no user who was gone was shown as online", Count::presence_ghosts,
         "shown as online"},
        {"presence_order", "watchers never saw an older version behind a newer one",
         Count::presence_out_of_order, "out of order"},
        {"presence_states", "watchers were told the same state for the same version",
         Count::presence_contradicted, "contradicted"},
        {"presence_missing", "watchers were told of every change", Count::presence_missing,
         "missing"},
        {"presence_late", "watchers were told of logins in time", Count::presence_late,
         "shown late"},
        {"presence_unseen", "every user who was online was shown as online at least once",
         Count::presence_unseen, "never shown"},
        {"presence_first", "watchers who came were told the present state at once",
         Count::presence_outdated, "old or missing"},
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

std::vector<CheckResult> http_checks(const Evidence& seen) {
    constexpr Column columns[] = {
        {"presence_http_false_offline", "HTTP reported no living user as offline",
         Count::presence_http_false_offline, "told to be offline"},
        {"presence_http_ghosts", "HTTP reported no user who was gone as online",
         Count::presence_http_ghosts, "told to be online"},
        {"presence_http_order", "HTTP never told an older version behind a newer one",
         Count::presence_http_out_of_order, "out of order"},
    };
    const auto asked = seen[Count::presence_asked];
    std::vector<CheckResult> checks;
    for (const auto& [name, promise, count, what] : columns) {
        if (asked == 0)
            checks.push_back(skipped(name, promise, "no presence could be asked for (--http)"));
        else
            checks.push_back(none_of(name, promise, seen[count],
                                     fmt::format("{} {} of {} answers", show_count(seen[count]),
                                                 what, show_count(asked))));
    }
    checks.push_back(check_answers(seen));
    return checks;
}

}  // namespace

bool shows_no_presence(const Scenario& scenario, const RunRecord& record) {
    if (record.totals[Count::presence_changes] > 0) return false;
    return anybody_watches(scenario) || record.totals[Count::presence_unseen] > 0;
}

std::vector<CheckResult> presence_checks(const Evidence& seen) {
    auto checks = watchers_checks(seen);
    for (auto& check : http_checks(seen)) checks.push_back(std::move(check));
    return checks;
}

}  // namespace pulsegate::load
