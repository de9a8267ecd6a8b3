#include <fmt/format.h>

#include <algorithm>

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
CheckResult message_fault(const Evidence& seen, const char* name, const char* promise, Count fault,
                          const char* what) {
    if (seen[Count::messages_sent] == 0 && seen[fault] == 0)
        return skipped(name, promise, "no messages were sent");
    const auto all = std::max(seen[Count::messages_expected], seen[Count::messages_received]);
    return none_of(name, promise, seen[fault],
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
            check_released(seen),
            check_acknowledged(seen)};
}

}  // namespace pulsegate::load
