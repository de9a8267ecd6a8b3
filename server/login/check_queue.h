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

/// The logins whose credentials are to be checked. Those who show the same share one check. Checks
/// take turns by the addresses, and by the users of an address, from which they were asked for. It
/// has no clock, no lock and no thread.
class CheckQueue {
public:
    using Ticket = FairQueue::Ticket;  ///< of a login; greater for one that came later
    using Tickets = std::vector<Ticket>;

    /// How many turns are waited for: one for each check and address.
    std::size_t waiting() const { return queue_.size(); }

    void add(Ticket ticket, const CredentialMac& credentials, const Address& address,
             std::string_view user, Millis now);

    /// Takes the check whose turn it is, and returns one of its logins: its leader.
    [[nodiscard]] std::optional<Ticket> next();

    /// The check of this leader does not begin, because its client has gone. Returns another leader
    /// of the check, if more logins wait for it.
    [[nodiscard]] std::optional<Ticket> give_up(Ticket leader);

    /// The check of this leader is done: takes out all logins that waited for it.
    [[nodiscard]] Tickets finish(Ticket leader);

    /// Takes out the turn that would come last, for when too many wait, with the logins that have
    /// no other.
    [[nodiscard]] Tickets drop_last();

    /// Takes out a login that came at `then` or before; no leader.
    [[nodiscard]] std::optional<Ticket> take_older_than(Millis then);

private:
    struct Login {
        CredentialMac credentials;
        Millis since;
    };
    struct Check {
        std::set<Ticket> logins{};
        boost::unordered_flat_map<Address, Ticket> turns{};  ///< that it waits for
        Ticket leader = 0;                                   ///< 0: it waits for a turn
    };
    using Logins = std::map<Ticket, Login>;

    struct Turn {
        CredentialMac credentials;
        Address address;
    };

    void withdraw_turns(Check& check);
    void remove(Logins::iterator login);

    FairQueue queue_;  ///< of turns, by the ticket of the login that came with them
    boost::unordered_flat_map<Ticket, Turn> turns_;
    Logins logins_;  ///< in the order in which they came
    boost::unordered_flat_map<CredentialMac, Check, CredentialMacHash> checks_;
};

}  // namespace pulsegate
