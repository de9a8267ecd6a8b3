#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/admission/bans.h"
#include "server/admission/recent.h"
#include "server/clock.h"

namespace pulsegate {

struct ConductSettings {
    unsigned ban_flaps = 30;      ///< within a minute; 0: no bans
    unsigned duel_takeovers = 5;  ///< within a minute; 0: nobody waits
    Millis ban_time = 5 * 60'000;
};

/// How the clients of one shard behave: who comes and goes all the time, and who fights for a
/// client id with another device. It has no clock.
class Conduct {
public:
    explicit Conduct(const ConductSettings& settings) : settings_(settings) {}

    bool banned(std::string_view user, std::string_view client, Millis now) const;

    /// The client's connection broke, timed out or was thrown out. True if it is banned for that.
    bool broke_off(std::string_view user, std::string_view client, Millis now);

    /// Another connection wants to take the client over: how long it should wait before it does.
    /// With each of two devices that come back at once when they are pushed out, that is a duel
    /// without end.
    Millis pause_before_takeover(std::string_view user, std::string_view client, Millis now);

    std::vector<Ban> bans(Millis now) const;
    /// False if there was none.
    bool lift_ban(std::string_view user, std::string_view client);

private:
    using Name = std::pair<std::string, std::string>;  ///< of the user and of its client

    const ConductSettings settings_;
    RecentCounts<std::uint64_t> flaps_;
    RecentCounts<std::uint64_t> takeovers_;
    BanList<Name> bans_;
};

}  // namespace pulsegate
