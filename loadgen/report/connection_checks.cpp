#include <fmt/format.h>

#include <algorithm>

#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

using Outcome = CheckResult::Outcome;

/// An interrupted run may have ended before all clients were due, so only failed attempts count.
CheckResult check_connected(const Evidence& seen) {
    const auto planned = seen.scenario.due_by(from_seconds(seen.record.measured().to));
    const auto missing = planned - std::min<std::uint64_t>(planned, seen[Count::entered]);
    const bool held = seen.record.interrupted ? seen[Count::connect_failed] == 0 : missing == 0;
    CheckResult check{
        "connected", "every client connected", held ? Outcome::passed : Outcome::failed,
        static_cast<double>(missing),
        fmt::format("{} of {}", show_count(seen[Count::entered]), show_count(planned))};
    const auto trouble = Enumeration()
                             .add(seen[Count::connect_failed], "attempts failed")
                             .add(seen[Count::refused_busy], "attempts refused as busy")
                             .text();
    if (!trouble.empty()) check.detail += "; " + trouble;
    return check;
}

/// A server without presence refuses each presence filter, and a server with access rules refuses
/// most of them. A server that grants most of them must grant all.
CheckResult check_subscribed(const Evidence& seen) {
    const auto granted = seen[Count::presence_filters_granted];
    const auto presence = seen[Count::presence_filters_refused];
    const bool owes_presence = granted > presence;
    const auto refused = seen[Count::filters_refused] + (owes_presence ? presence : 0);
    auto check = none_of("subscribed", "every subscription was granted", refused,
                         fmt::format("{} refused", show_count(refused)));
    if (!owes_presence && presence > 0)
        check.detail += fmt::format(", and {} of {} for presence", show_count(presence),
                                    show_count(presence + granted));
    return check;
}

CheckResult check_protocol(const Evidence& seen) {
    const auto violations = seen[Count::violations];
    return none_of(
        "protocol", "the server sent nothing that the protocol forbids", violations,
        fmt::format("{} violation{}", show_count(violations), violations == 1 ? "" : "s"));
}

CheckResult check_false_offline(const Evidence& seen) {
    const auto closed = seen[Count::false_offline];
    return none_of("false_offline", "no client that kept talking was closed", closed,
                   fmt::format("{} closed", show_count(closed)));
}

CheckResult check_sessions(const Evidence& seen) {
    const char* promise = "every kept session was found again";
    const auto lost = seen[Count::session_lost];
    const auto resumed = seen[Count::resumed];
    if (lost + resumed == 0)
        return skipped("session_lost", promise, "no client came back to a kept session");
    return none_of("session_lost", promise, lost,
                   fmt::format("{} lost of {}", show_count(lost), show_count(lost + resumed)));
}

CheckResult check_returned(const Evidence& seen) {
    const auto kept_out = seen[Count::kept_out];
    return none_of("returned", "every disconnected client could log in again", kept_out,
                   fmt::format("{} kept out", show_count(kept_out)));
}

/// "30 s", or "their limit of 30 s to 90 s" if the clients have several keepalives.
std::string limits_text(const Scenario& scenario, Duration later) {
    const auto limits = limits_of(scenario);
    if (limits.least == limits.most) return show(limits.most + later);
    const auto range =
        fmt::format("their limit of {} to {}", show(limits.least), show(limits.most));
    return later == Duration::zero() ? range : fmt::format("{} after {}", show(later), range);
}

/// Three checks: too early, too late and never are different faults of a close.
std::vector<CheckResult> expiry_checks(const Evidence& seen) {
    const auto early = fmt::format("no silent client was closed before {}",
                                   limits_text(seen.scenario, Duration::zero()));
    const auto late =
        fmt::format("no silent client was closed later than {} (+{})",
                    limits_text(seen.scenario, closing_tick), show(seen.scenario.tolerance));
    const char* never = "every silent client was closed";

    const auto judged = seen[Count::closed_in_time] + seen[Count::closed_early] +
                        seen[Count::closed_late] + seen[Count::never_closed];
    if (judged == 0) {
        const std::string why = seen[Count::silent] == 0
                                    ? std::string("no client fell silent")
                                    : fmt::format("none of {} silent clients could be judged",
                                                  show_count(seen[Count::silent]));
        return {skipped("expiry_early", early, why), skipped("expiry_late", late, why),
                skipped("expiry_never", never, why)};
    }
    const auto column = [&](const char* name, const std::string& promise, Count count,
                            const char* what) {
        const auto detail = Enumeration()
                                .add(seen[Count::closed_in_time], "in time")
                                .add(seen[count], what)
                                .add(seen[Count::closed_unclear], "unclear")
                                .text();
        return none_of(name, promise, seen[count], detail);
    };
    // MQTT sets no time within which a server must notice that a client's limit has passed.
    const auto in_time = is_pulsegate(seen)
                             ? column("expiry_late", late, Count::closed_late, "late")
                             : skipped("expiry_late", late, only_pulsegate);
    return {column("expiry_early", early, Count::closed_early, "early"), in_time,
            column("expiry_never", never, Count::never_closed, "still open")};
}

CheckResult check_pings_late(const Evidence& seen) {
    const auto promise =
        fmt::format("every ping was answered within {}", show(seen.scenario.ping_within));
    if (seen[Count::pings_sent] == 0) return skipped("pings_late", promise, "nobody pinged");
    const auto late = seen[Count::pings_late];
    return none_of(
        "pings_late", promise, late,
        fmt::format("{} late of {}, the slowest took {}", show_count(late),
                    show_count(seen[Count::pings_sent]), show(seen[Timing::ping].max())));
}

CheckResult check_pings_unanswered(const Evidence& seen) {
    const char* promise = "every ping was answered";
    if (seen[Count::pings_sent] == 0) return skipped("pings_unanswered", promise, "nobody pinged");
    const auto none = seen[Count::pings_unanswered];
    return none_of(
        "pings_unanswered", promise, none,
        fmt::format("{} of {} without an answer, {} answered", show_count(none),
                    show_count(seen[Count::pings_sent]), show_count(seen[Count::pings_answered])));
}

}  // namespace

std::vector<CheckResult> connection_checks(const Evidence& seen) {
    std::vector<CheckResult> checks{check_connected(seen),  check_protocol(seen),
                                    check_subscribed(seen), check_false_offline(seen),
                                    check_returned(seen),   check_sessions(seen)};
    for (auto& check : expiry_checks(seen)) checks.push_back(std::move(check));
    checks.push_back(check_pings_late(seen));
    checks.push_back(check_pings_unanswered(seen));
    return checks;
}

}  // namespace pulsegate::load
