#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "server/auth/credential_mac.h"
#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/limits/fair_queue.h"

namespace pulsegate {

/// The logins that wait for a check of their credentials. Logins with the same credentials share
/// one check. Checks take turns by the address of their logins, and by user within an address. It
/// has no clock, no lock and no thread.
class CheckQueue {
public:
    using Ticket = FairQueue::Ticket;  ///< of a login; later logins have greater tickets
    using Tickets = std::vector<Ticket>;

    /// The number of turns in the queue: one for each check and address.
    std::size_t waiting() const { return queue_.size(); }

    void add(Ticket ticket, const CredentialMac& credentials, const Address& address,
             std::string_view user, Millis now);

    /// Takes the check whose turn it is, and returns one of its logins: its leader.
    [[nodiscard]] std::optional<Ticket> next();

    /// The check of this leader does not begin, because its client has gone. Returns another leader
    /// of the check, if more logins wait for it.
    [[nodiscard]] std::optional<Ticket> give_up(Ticket leader);

    /// The check of this leader is done. Takes out all logins that waited for it.
    [[nodiscard]] Tickets finish(Ticket leader);

    /// Takes out the last turn, with the logins that have no other. Call it when too many wait.
    [[nodiscard]] Tickets drop_last();

    /// Takes out a login, but no leader, that came at `then` or before.
    [[nodiscard]] std::optional<Ticket> take_older_than(Millis then);

private:
    struct Login {
        CredentialMac credentials;
        Millis since;
    };
    struct Check {
        std::set<Ticket> logins{};
        boost::unordered_flat_map<Address, Ticket> turns{};  ///< the turns it waits for
        Ticket leader = 0;                                   ///< 0: it waits for a turn
    };
    using Logins = std::map<Ticket, Login>;

    struct Turn {
        CredentialMac credentials;
        Address address;
    };

    void withdraw_turns(Check& check);
    void remove(Logins::iterator login);

    FairQueue queue_;  ///< of turns, by the ticket of the login that brought them
    boost::unordered_flat_map<Ticket, Turn> turns_;
    Logins logins_;  ///< in order of arrival
    boost::unordered_flat_map<CredentialMac, Check, CredentialMacHash> checks_;
};

}  // namespace pulsegate
