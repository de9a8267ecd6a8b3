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

/// Which clients a list is to have: those to which all of it applies. An address, a listener and a
/// moment apply to connected clients only.
struct ClientFilter {
    std::string client_prefix{};
    std::optional<AddressRange> address{};
    std::string listener{};  ///< "": any
    std::optional<bool> connected{};
    WallMillis connected_since = 0;
};

/// Behind which client a page begins: users come in the order of their last change, and the
/// sessions of a user in the order in which they began.
struct ClientPosition {
    PresencePosition user{};
    SessionId session = 0;  ///< the last one of this user that is done; 0: all of them are
};

struct ClientsFound {
    std::vector<ClientDescription> clients{};
    std::optional<ClientPosition> next{};  ///< nothing: there are no more on this shard
};

/// Goes through the clients of one shard, a bounded number in each turn, and wakes nobody. A client
/// that stays as it is while the pages are read is on one of them. If its user comes or goes
/// meanwhile, it may be on two.
class ClientSearch {
public:
    /// Of a turn of the shard.
    static constexpr std::size_t users_a_turn = 1000;
    static constexpr std::size_t clients_a_turn = 200;
    /// What one user has in it may be more.
    static constexpr std::size_t bytes_a_turn = 1024 * 1024;

    ClientSearch(const Presence& presence, const ClientDescriber& describer,
                 const ClientFilter& filter, std::size_t most);

    ClientsFound some(ClientPosition after);
    /// The same of one user.
    ClientsFound some_of(User& user, SessionId after);

private:
    bool visit(PresenceEntry& entry);
    void add_dormant(const PresenceEntry& entry);
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
    std::size_t bytes_ = 0;   ///< of those that are summed up
    std::size_t summed_ = 0;  ///< so many of them
};

}  // namespace pulsegate
