#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/kill/message_checker.h"
#include "loadgen/kill/presence_checker.h"

namespace pulsegate::kill {

/// A stop of the broker: it was told to end, and ended after a while.
struct Stop {
    Time at{};
    Duration took{};
};

struct Results {
    std::vector<std::string> command;  ///< that started the broker
    MessageChecker messages;
    PresenceChecker presence;
    Time began{};  ///< when the first message was sent
    std::vector<Time> kills;
    std::uint32_t edge_kills = 0;  ///< among them, of edges
    std::vector<Stop> stops;
    std::vector<std::string> bad_stops;  ///< how the broker ended when it did not end in order
    std::uint32_t steps_forward = 0;     ///< of the broker's clock
    std::uint32_t steps_back = 0;
    std::vector<Duration> starts;   ///< how long the port was closed, after each kill or stop
    std::vector<std::string> ends;  ///< how the broker ended by itself
    std::uint32_t own_stalls = 0;   ///< of this program
    Duration longest_stall{};
};

}  // namespace pulsegate::kill
