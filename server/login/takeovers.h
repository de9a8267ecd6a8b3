#pragma once

#include <string_view>

#include "server/base/clock.h"
#include "server/base/counters.h"
#include "server/limits/client_limits.h"

namespace pulsegate {

class Connection;
class Logins;
class Session;

/// What a login must wait for before it takes over a connection of its client. It owns nothing, and
/// lives on the shard's thread.
class Takeovers {
public:
    Takeovers(const Logins& logins, ClientLimits& client_limits, Counters& counters)
        : logins_(logins), client_limits_(client_limits), counters_(counters) {}

    /// Two devices with one client id would take each other over as fast as they can. So each must
    /// wait for this time; 0: it need not wait.
    Millis pause(std::string_view user, std::string_view client, const Connection& newcomer,
                 Millis now);

private:
    const Session* connected(std::string_view user, std::string_view client) const;

    const Logins& logins_;
    ClientLimits& client_limits_;
    Counters& counters_;
};

}  // namespace pulsegate
