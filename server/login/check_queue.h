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

/// The logins whose credentials are to be checked: whose turn is next, and who shows the same as
/// another and shares its check. Addresses take turns, and so do the users of an address. It has no
/// clock, no lock and no thread.
class CheckQueue {
public:
    using Ticket = FairQueue::Ticket;

    /// How many wait for their turn.
    std::size_t waiting() const { return queue_.size(); }

    void add(Ticket ticket, const CredentialMac& credentials, const Address& address,
             std::string_view user, Millis now);

    /// Takes the one whose check may begin next: one check for all who show the same.
    [[nodiscard]] std::optional<Ticket> next();

    /// The check of a ticket that `next` returned does not begin, because its client has gone. The
    /// next one who shows the same may take over, if there is one.
    [[nodiscard]] std::optional<Ticket> give_up(Ticket ticket);

    /// The check of a ticket that `next` or `give_up` returned is done: takes out all who show the
    /// same.
    [[nodiscard]] std::vector<Ticket> finish(Ticket ticket);

    /// Takes out the one whose turn would come last; for when too many wait.
    [[nodiscard]] std::optional<Ticket> take_last();
    /// Takes out one that came at `then` or before, and still waits for its turn.
    [[nodiscard]] std::optional<Ticket> take_older_than(Millis then);

private:
    struct Login {
        CredentialMac credentials;
        Millis since;
    };
    struct Check {
        std::set<Ticket> logins{};  ///< that show the same
        Ticket leader = 0;          ///< whose turn it is used for; 0: it waits for a turn
    };
    using Logins = std::map<Ticket, Login>;

    void remove(Logins::iterator login);

    FairQueue queue_;  ///< not of those whose check has its turn
    Logins logins_;    ///< all, in the order in which they came
    boost::unordered_flat_map<CredentialMac, Check, CredentialMacHash> checks_;
};

}  // namespace pulsegate
