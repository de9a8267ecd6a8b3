#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/limits/upgrade_state.h"

namespace pulsegate {

// The bodies of the messages between the two processes, as JSON: members that a program does not
// know are ignored, and those that another one did not send have their defaults.

/// What the new process says first.
struct UpgradeHello {
    std::string version{};
    int state = 0;         ///< the format of a client's state that it writes
    int oldest_state = 0;  ///< and the oldest that it reads
    int store = 0;         ///< the format of its store
    int gateway = 0;       ///< the format of a gateway's state that it reads; 0: it reads none
};
UpgradeHello own_hello();
std::string encode(const UpgradeHello& hello);
UpgradeHello decode_hello(std::string_view text);
/// Why it can't take over from this process; "": it can.
std::string objection(const UpgradeHello& hello);

/// What it says when it has everything.
struct Ready {
    std::uint64_t adopted = 0;
    std::uint64_t refused = 0;
    bool divides_rooms = false;  ///< the way back ends with "go"; see DataStore
};
std::string encode(const Ready& ready);
Ready decode_ready(std::string_view text);

/// What the old one says last: how the upgrade has gone so far, and since when nobody serves.
struct Go {
    UpgradeOutcome outcome{};
    std::chrono::steady_clock::time_point since{};  ///< the same clock in all processes
};
std::string encode(const Go& go);
Go decode_go(std::string_view text);

}  // namespace pulsegate
