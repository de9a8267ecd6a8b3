#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/limits/upgrade_state.h"

namespace pulsegate {

// The bodies of the messages between the two processes, as JSON. Unknown members are ignored, and
// missing members have their defaults.

/// The promises that connected clients may rely on, by the names of the settings; a larger number
/// allows more.
using Promises = std::map<std::string, std::uint64_t>;

/// The promise that clients may stay although no password or token of theirs was checked. 0: none;
/// 1: anonymous clients; 2: all clients. It belongs to several settings.
inline constexpr const char* promise_of_no_login = "no-login";

/// The first message of the new process.
struct UpgradeHello {
    std::string version{};
    int state = 0;         ///< the format of a client's state that it writes
    int oldest_state = 0;  ///< and the oldest that it reads
    int store = 0;         ///< the format of its store
    int gateway = 0;       ///< the format of a gateway's state that it reads; 0: it reads none
    Promises promises{};   ///< empty: the process does not state them
};
UpgradeHello own_hello(Promises promises);
std::string encode(const UpgradeHello& hello);
UpgradeHello decode_hello(std::string_view text);
/// The reason why the new process can't take over from this one, `own`; "" if it can.
std::string objection(const UpgradeHello& hello, const UpgradeHello& own);

/// What an upgrade needs of the machine, in bytes.
struct UpgradeRoom {
    std::optional<std::uintmax_t> disk{};  ///< that the data folder's disk has left, if known
    std::size_t own_memory = 0;            ///< that this process has
    std::size_t unused_memory = 0;         ///< that the machine has left
};
/// The reason why an upgrade could do harm; "" if there is none. The new process has its own copy
/// of what this one has in memory. If the disk is full, this process may be unable to open the
/// store again after it has closed it.
std::string objection(const UpgradeRoom& room);

/// The message of the new process when it has everything.
struct Ready {
    std::uint64_t adopted = 0;
    std::uint64_t refused = 0;
    /// The numbers of the refused clients, from 0 on in the order in which they have come. An older
    /// version does not state them.
    std::vector<std::uint64_t> refused_clients{};
    bool divides_rooms = false;  ///< the old process can't take over again after "go"; see
                                 ///< DataStore
};
std::string encode(const Ready& ready);
Ready decode_ready(std::string_view text);

/// The last message of the old process: the result of the upgrade so far, and the time since which
/// no process serves.
struct Go {
    UpgradeOutcome outcome{};
    std::chrono::steady_clock::time_point since{};  ///< the same clock in all processes
};
std::string encode(const Go& go);
Go decode_go(std::string_view text);

}  // namespace pulsegate
