#include "loadgen/kill/checks.h"

#include <fmt/format.h>

#include <utility>

#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::kill {

using load::CheckResult;
using load::show_count;

namespace {

/// A check of one kind of fault. It is skipped if nothing was there that could have been faulty.
CheckResult check_faults(const char* name, const char* promise, std::uint64_t count,
                         const char* what, std::uint64_t judged, const char* why_skipped) {
    if (judged + count == 0) return load::skipped(name, promise, why_skipped);
    return load::none_of(name, promise, count, fmt::format("{} {}", show_count(count), what));
}

CheckResult check_acknowledged(const MessageChecker& messages) {
    using Outcome = CheckResult::Outcome;
    std::uint64_t count = 0;
    for (const Kind kind : all_kinds) count += messages.counts(kind).acknowledged;
    return {"acknowledged", "the broker acknowledged messages",
            count > 0 ? Outcome::passed : Outcome::failed, static_cast<double>(count),
            show_count(count) + " acknowledged"};
}

}  // namespace

std::vector<CheckResult> checks_of(const MessageChecker& messages) {
    Counts all;
    std::uint64_t ordered = 0;
    for (const Kind kind : all_kinds) {
        const Counts& each = messages.counts(kind);
        all.sent += each.sent;
        all.acknowledged += each.acknowledged;
        all.lost += each.lost;
        all.wrongly_repeated += each.wrongly_repeated;
        all.out_of_order += each.out_of_order;
        all.early += each.early;
        all.outdated += each.outdated;
        all.unwanted += each.unwanted;
        if (is_ordered(kind)) ordered += each.sent;
    }
    const auto wills = messages.counts(Kind::will).sent;
    return {
        check_faults("lost", "every acknowledged message arrived", all.lost, "lost",
                     all.acknowledged, "nothing was acknowledged"),
        check_faults("repeated", "no message came again where MQTT forbids it",
                     all.wrongly_repeated, "wrongly repeated", all.sent, "no messages were sent"),
        check_faults("reordered", "messages came in order", all.out_of_order, "out of order",
                     ordered, "no messages were sent that have an order"),
        check_faults("early", "no delayed message and no will came early", all.early, "early",
                     wills + messages.counts(Kind::delayed).acknowledged,
                     "no delayed messages and no wills were sent"),
        check_faults("outdated", "no message came after its expiry", all.outdated, "outdated",
                     messages.counts(Kind::mixed).sent, "no messages with an expiry were sent"),
        check_faults("unwanted", "no will came that was taken back", all.unwanted, "unwanted",
                     wills, "no wills were set"),
        check_faults("sessions", "no confirmed session was lost", messages.sessions_lost(),
                     "sessions lost", all.sent, "no messages were sent"),
        check_faults("protocol",
                     "the broker sent nothing that MQTT forbids, or that nobody had sent",
                     messages.other_faults(), "other faults", all.sent, "no messages were sent"),
    };
}

std::vector<CheckResult> checks_of(const PresenceChecker& presence) {
    const auto one = [&](const char* name, const char* promise, std::uint64_t count,
                         const char* what) {
        return check_faults(name, promise, count, what, presence.told(),
                            "no presence was reported");
    };
    return {
        one("presence_order",
            "no watcher was told an older version of a user, or another state with the "
            "same version",
            presence.fallen(), "versions fell"),
        one("presence_states", "every watcher was told the true states", presence.untrue(),
            "untrue states"),
        one("presence_in_time", "no user was shown offline who had time to come back",
            presence.offline_in_time(), "offline in time"),
    };
}

std::vector<CheckResult> checks_of(const Results& results) {
    std::vector<CheckResult> checks{check_acknowledged(results.messages)};
    for (auto& check : checks_of(results.messages)) checks.push_back(std::move(check));
    for (auto& check : checks_of(results.presence)) checks.push_back(std::move(check));
    checks.push_back(load::none_of("survived", "the broker did not end by itself",
                                   results.ends.size(),
                                   show_count(results.ends.size()) + " ends by itself"));
    checks.push_back(check_faults("stops", "every stop ended in order", results.bad_stops.size(),
                                  "stops not in order", results.stops.size(),
                                  "the broker was not stopped"));
    return checks;
}

}  // namespace pulsegate::kill
