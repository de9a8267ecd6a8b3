#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/limits/address_range.h"
#include "server/session/client_description.h"
#include "server/session/terms/session_id.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Selects the clients of a list: the clients that match all of it. An address, a listener or a
/// time matches connected clients only.
struct ClientFilter {
    std::string client_prefix{};
    std::optional<AddressRange> address{};
    std::string listener{};  ///< "": any
    std::optional<bool> connected{};
    WallMillis connected_since = 0;
};

/// The client after which a page begins. Users are in the order of their last change, and the
/// sessions of a user in the order in which they began.
struct ClientPosition {
    PresencePosition user{};
    SessionId session = 0;  ///< the last session of this user that was visited; 0: all were
};

struct ClientsFound {
    std::vector<ClientDescription> clients{};
    std::optional<ClientPosition> next{};  ///< nothing: there are no more on this shard
};

/// Visits the clients of one shard, a limited number in each round, and unpacks no user. A client
/// that does not change while the pages are read is on one of them. If its user comes or goes
/// meanwhile, the client may be on two pages.
class ClientSearch {
public:
    /// Limits of one round of the shard.
    static constexpr std::size_t users_a_turn = 1000;
    static constexpr std::size_t clients_a_turn = 200;
    /// The maximum bytes of one round. The clients of a single user may exceed it.
    static constexpr std::size_t bytes_a_turn = 1024 * 1024;

    ClientSearch(const Presence& presence, const ClientDescriber& describer,
                 const ClientFilter& filter, std::size_t most);

    ClientsFound some(ClientPosition after);
    /// Visits the clients of one user, with the same limits.
    ClientsFound some_of(User& user, SessionId after);

private:
    bool visit(PresenceEntry& entry);
    void add_packed(const PresenceEntry& entry);
    bool add_sessions(User& user, SessionId behind);
    bool matches(const Session& session) const;
    bool may_be_away() const;
    std::size_t bytes_found();

    const Presence& presence_;
    const ClientDescriber& describer_;
    const ClientFilter& filter_;
    const std::size_t most_;
    ClientPosition after_{};
    ClientsFound found_{};
    std::size_t bytes_ = 0;   ///< bytes of the clients that are summed up
    std::size_t summed_ = 0;  ///< how many clients are summed up
};

}  // namespace pulsegate
