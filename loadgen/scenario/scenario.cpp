#include "loadgen/scenario/scenario.h"

#include <algorithm>
#include <cmath>

namespace pulsegate::load {

namespace {

/// Packets that clients send for one message. QoS 1 adds the receiver's PUBACK. QoS 2 adds the
/// sender's PUBREL, and the receiver's PUBREC and PUBCOMP.
double packets_of_message(const Group& group, const Group& receivers) {
    double readers = 1;
    if (group.to_what == Group::To::rooms && receivers.rooms > 0)
        readers = static_cast<double>(receivers.clients) * receivers.rooms_each / receivers.rooms;
    return 1 + group.qos[2] + readers * (group.qos[1] + 2 * group.qos[2]);
}

double pings_of(const Group& group) {
    if (group.hostile != Hostile::none) return 0;
    const double every =
        seconds(group.keepalive) * (Scenario::earliest_ping + Scenario::latest_ping) / 2;
    return group.clients * (1 - group.silent) / every;
}

/// The time from the end of the ramp until all clients of the group have begun to arrive.
Duration arrival(const Group& group) {
    if (group.starts == Duration::zero()) return {};
    return group.starts + from_seconds(group.ramp > 0 ? group.clients / group.ramp : 0);
}

}  // namespace

std::uint32_t Scenario::clients() const {
    std::uint32_t sum = 0;
    for (const Group& group : groups) sum += group.clients;
    return sum;
}

std::uint32_t Scenario::due_by(Duration elapsed) const {
    constexpr Duration login = std::chrono::seconds(10);  // the time that a login may take
    double due = 0;
    for (const Group& group : groups) {
        if (group.hostile != Hostile::none) continue;
        const double arrived = std::floor(group.ramp * seconds(elapsed - group.starts - login));
        // Groups that start at once finish their ramp before the measured part begins, so all their
        // clients are due.
        due += group.starts == Duration::zero() ? group.clients
                                                : std::clamp<double>(arrived, 0, group.clients);
    }
    return static_cast<std::uint32_t>(due);
}

double Scenario::packets() const {
    double sum = 0;
    for (const Group& group : groups)
        sum += pings_of(group) + group.messages * packets_per_message(group);
    return sum;
}

double Scenario::packets_per_message(const Group& group) const {
    return group.to < groups.size() ? packets_of_message(group, groups[group.to]) : 1;
}

Duration Scenario::limit_of(const Group& group) const {
    return limit > Duration::zero() ? limit : Duration(group.keepalive) * 3 / 2;
}

std::uint32_t Scenario::first_of(std::size_t group) const {
    std::uint32_t first = 0;
    for (std::size_t at = 0; at < group; ++at) first += groups[at].clients;
    return first;
}

Duration Scenario::settled_after() const {
    Duration after = 2 * hostile_after;  // as long with the hostile clients as without
    for (const Group& group : groups) {
        if (group.silent > 0)
            after = std::max(after, arrival(group) + group.silent_after + group.silent_over +
                                        limit_of(group) + server_tick + tolerance);
        if (group.storm) after = std::max(after, group.storm_after);
    }
    return after;
}

}  // namespace pulsegate::load
