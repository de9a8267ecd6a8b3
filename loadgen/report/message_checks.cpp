#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

bool sends_at(const Scenario& scenario, std::size_t qos) {
    return std::ranges::any_of(scenario.groups, [&](const Group& group) {
        return group.messages > 0 && group.qos[qos] > 0;
    });
}

/// A check of one kind of fault: how many there were among all deliveries.
CheckResult message_fault(const Evidence& seen, const char* name, std::string promise, Count fault,
                          const char* what) {
    if (seen[Count::messages_sent] == 0 && seen[fault] == 0)
        return skipped(name, std::move(promise), "no messages were sent");
    const auto all = std::max(seen[Count::messages_expected], seen[Count::messages_received]);
    return none_of(name, std::move(promise), seen[fault],
                   fmt::format("{} {} of {}", show_count(seen[fault]), what, show_count(all)));
}

CheckResult check_lost(const Evidence& seen) {
    auto check = message_fault(seen, "lost", "every message arrived", Count::messages_lost, "lost");
    const auto others =
        Enumeration()
            .add(seen[Count::messages_missed_closed],
                 "missed by clients that the server closed wrongly")
            .add(seen[Count::messages_missed_away], "for clients that were away without a session")
            .add(seen[Count::messages_in_doubt], "in doubt")
            .add(seen[Count::messages_excused], "missing through the generator's own fault")
            .add(seen[Count::messages_unsent], "could not be sent")
            .text();
    if (!others.empty()) check.detail += "; " + others;
    return check;
}

CheckResult check_crossed(const Evidence& seen) {
    const char* promise = "messages between clients of different nodes arrived";
    const auto arrived = seen[Count::messages_crossed];
    const auto lost = seen[Count::messages_lost_crossing];
    if (arrived + lost == 0)
        return skipped("crossed", promise, "no messages were sent from one node to another");
    auto check =
        none_of("crossed", promise, lost,
                fmt::format("{} lost of {}", show_count(lost), show_count(arrived + lost)));
    if (arrived == 0) check.detail += "; the servers do not seem to be nodes of one cluster";
    return check;
}

CheckResult check_repeated(const Evidence& seen) {
    const char* promise =
        "no QoS 1 message was repeated against MQTT's rules (same connection, no DUP, after "
        "PUBACK)";
    if (!sends_at(seen.scenario, 1) && seen[Count::messages_repeated] == 0)
        return skipped("repeated", promise, "no messages were sent at QoS 1");
    return message_fault(seen, "repeated", promise, Count::messages_repeated, "repeated");
}

CheckResult check_released(const Evidence& seen) {
    const char* promise = "every delivery at QoS 2 was completed by a PUBREL";
    const auto open = seen[Count::unreleased];
    if (!sends_at(seen.scenario, 2) && open == 0)
        return skipped("released", promise, "no messages were sent at QoS 2");
    return message_fault(seen, "released", promise, Count::unreleased, "without a PUBREL");
}

/// Other servers may have another use for the property that names the sender of a message.
CheckResult check_sender(const Evidence& seen) {
    const char* promise = "no message named another user as its sender";
    if (!is_pulsegate(seen)) return skipped("sender", promise, only_pulsegate);
    const bool has_properties = std::ranges::any_of(
        seen.scenario.groups, [](const Group& group) { return group.version == Version::v5_0; });
    if (!has_properties)
        return skipped("sender", promise, "the messages of MQTT 3.1.1 have no properties");
    return message_fault(seen, "sender", promise, Count::messages_forged, "with a wrong sender");
}

/// Messages that a kept session sends again are not judged.
CheckResult check_late(const Evidence& seen) {
    const auto promise = fmt::format("every message arrived within {} of its planned time",
                                     show(seen.scenario.late_after(seen.record.is_cluster)));
    auto check = message_fault(seen, "messages_late", promise, Count::messages_late, "late");
    const auto& times = seen[Timing::message];
    if (check.outcome != CheckResult::Outcome::skipped && !times.empty())
        check.detail += fmt::format(", the slowest took {}", show(times.max()));
    return check;
}

CheckResult check_acknowledged_late(const Evidence& seen) {
    const auto promise = fmt::format("every acknowledgement came within {}",
                                     show(seen.scenario.late_after(seen.record.is_cluster)));
    const auto all = seen[Count::acknowledged];
    const auto count = seen[Count::acknowledged_late];
    if (all + count == 0) return skipped("acknowledged_late", promise, "nothing was acknowledged");
    return none_of("acknowledged_late", promise, count,
                   fmt::format("{} late of {}", show_count(count), show_count(all)));
}

/// MQTT-4.6.0-2 and -3 are rules for clients. A Pulsegate keeps them as well.
CheckResult check_order_of_answers(const Evidence& seen) {
    const char* promise = "messages were acknowledged in their order";
    if (seen[Count::acknowledged] == 0)
        return skipped("acknowledged_order", promise, "nothing was acknowledged");
    if (!is_pulsegate(seen)) return skipped("acknowledged_order", promise, only_pulsegate);
    const auto count = seen[Count::acknowledged_disorderly];
    return none_of("acknowledged_order", promise, count,
                   fmt::format("{} behind a later one of {}", show_count(count),
                               show_count(seen[Count::acknowledged])));
}

CheckResult check_acknowledged(const Evidence& seen) {
    const char* promise = "every message of QoS 1 and 2 was acknowledged";
    const auto missing = seen[Count::unacknowledged] + seen[Count::publishes_refused];
    const bool is_sent = sends_at(seen.scenario, 1) || sends_at(seen.scenario, 2);
    if (!is_sent && seen[Count::unacknowledged] == 0)
        return skipped("acknowledged", promise, "all messages were sent at QoS 0");
    if (seen[Count::acknowledged] + missing == 0)
        return skipped("acknowledged", promise, "no such messages were sent");
    auto check = none_of("acknowledged", promise, missing,
                         fmt::format("{} acknowledged", show_count(seen[Count::acknowledged])));
    const auto faults = Enumeration()
                            .add(seen[Count::unacknowledged], "never acknowledged")
                            .add(seen[Count::publishes_refused], "refused")
                            .text();
    if (!faults.empty()) check.detail += ", " + faults;
    return check;
}

}  // namespace

std::vector<CheckResult> message_checks(const Evidence& seen) {
    return {check_lost(seen),
            check_crossed(seen),
            check_repeated(seen),
            message_fault(seen, "repeated_qos2", "no message of QoS 0 or 2 came twice",
                          Count::messages_repeated_qos2, "repeated"),
            message_fault(seen, "reordered",
                          "messages came in the order in which their sender sent them",
                          Count::messages_reordered, "behind a later one"),
            message_fault(seen, "misdirected", "messages came to nobody else",
                          Count::messages_misdirected, "misdirected"),
            message_fault(seen, "damaged", "messages came as they were sent",
                          Count::messages_damaged, "damaged"),
            check_sender(seen),
            check_late(seen),
            check_released(seen),
            check_acknowledged(seen),
            check_acknowledged_late(seen),
            check_order_of_answers(seen)};
}

}  // namespace pulsegate::load
