#pragma once

#include <optional>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/counters.h"
#include "server/limits/client_limits.h"

namespace pulsegate {

class Connection;
class Link;
class Logins;
class Session;

/// A connection that a login would take over.
struct Rival {
    const Link* link;
    WallMillis since;  ///< a later connection may have the same address in memory

    bool operator==(const Rival&) const = default;
};

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

    /// A login may be old, because this node stood still, or the link to the client's edge has
    /// passed nothing for some seconds. If the client has given it up and has logged in elsewhere
    /// since, it must not take over that connection. True if the client has a connection that is
    /// not `rival`, which then becomes this connection: the login must make sure that its client is
    /// still there.
    bool meets_rival(std::string_view user, std::string_view client,
                     std::optional<Rival>& rival) const;

private:
    const Session* connected(std::string_view user, std::string_view client) const;

    const Logins& logins_;
    ClientLimits& client_limits_;
    Counters& counters_;
};

}  // namespace pulsegate
