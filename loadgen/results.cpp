#include "loadgen/results.h"

#include <algorithm>

namespace pulsegate::load {

void Results::add_storm(const Results& others) {
    storm = others.storm;
    storm.behind = others.longest_stall;
    connections.connected += others.connections.connected;
    connections.failed += others.connections.failed;
    connections.time.add(others.connections.time);
    pings.sent += others.pings.sent;
    pings.answered += others.pings.answered;
    pings.overdue += others.pings.overdue;
    pings.time.add(others.pings.time);
    messages.misdirected += others.messages.misdirected;
    false_offline += others.false_offline;
    starved += others.starved;
    server_keepalive = std::max(server_keepalive, others.server_keepalive);
    examples.insert(examples.end(), others.examples.begin(), others.examples.end());
}

}  // namespace pulsegate::load
