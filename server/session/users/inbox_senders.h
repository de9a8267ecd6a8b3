#pragma once

#include <boost/container/flat_map.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "server/session/users/inbox_accounts.h"

namespace pulsegate {

class Outbox;

/// Which senders have messages in which inboxes of one shard. It decides which inbox ends when
/// there are too many, or too little memory. The queues of inboxes report each message that they
/// add or remove. It keeps the accounts of all shards up to date; it belongs to the shard's thread.
class InboxSenders {
public:
    using Sender = InboxAccounts::Sender;

    explicit InboxSenders(InboxAccounts& accounts) : accounts_(accounts) {}

    /// The approximate memory of an inbox besides its messages, including the user's name. It is
    /// charged to every sender with a message there.
    static constexpr std::size_t bytes_of_inbox = 2048;

    void add(const Outbox& inbox, Sender sender, std::size_t bytes);
    void remove(const Outbox& inbox, Sender sender, std::size_t bytes);

    bool takes_part(const Outbox& inbox, Sender sender) const;
    /// Does the sender have a message in any inbox here?
    bool has_any(Sender sender) const { return senders_.contains(sender); }

    /// The inbox that ends to make room for an inbox that `newcomer` needs. The sender with the
    /// most inboxes here has a message in it, and all its senders have more inboxes than the
    /// newcomer would have. Several inboxes are examined; the result is the one where the sender
    /// with the fewest inboxes has the most. Null: there is none.
    using MayEnd = std::function<bool(const Outbox&)>;
    const Outbox* surplus(Sender newcomer, const MayEnd& may_end);

    struct Largest {
        Sender sender = InboxAccounts::gateway;
        std::size_t inboxes = 0;  ///< inboxes with its messages
        std::size_t bytes = 0;
        std::size_t sum = 0;   ///< sum of all senders
        unsigned holders = 0;  ///< number of senders with messages
    };
    /// A search for the sender with the most memory, over several rounds.
    struct Search {
        Largest largest{};  ///< the largest so far
        /// The last examined sender.
        std::pair<std::size_t, Sender> examined{0, InboxAccounts::gateway};
    };
    /// Examines some more senders, and counts their messages with bodies; or without bodies, if
    /// these are left to the store. Returns true when all are examined.
    [[nodiscard]] bool find_largest(Search& search, bool with_bodies) const;

    /// The inboxes in which the sender has messages, the oldest first.
    std::vector<const Outbox*> inboxes_of(Sender sender, std::size_t most) const;

    /// The measure of a round's work: inboxes that were examined since the start.
    std::uint64_t work() const { return work_; }

private:
    struct Part {
        std::uint32_t messages = 0;
        std::uint64_t number = 0;  ///< later parts have larger numbers
    };
    using Parts = boost::container::flat_map<Sender, Part>;
    struct OfSender {
        std::map<std::uint64_t, const Outbox*> inboxes{};  ///< by `Part::number`
        std::size_t messages = 0;
        std::size_t bytes = 0;
        std::uint64_t examined = 0;  ///< the number of the inbox that was examined last

        std::size_t cost(bool with_bodies) const;
    };

    std::size_t count_of(Sender sender) const;
    std::size_t least_count(const Parts& parts) const;
    void recount(Sender sender, std::size_t before, std::size_t now);

    InboxAccounts& accounts_;
    boost::unordered_flat_map<const Outbox*, Parts> parts_;
    boost::unordered_flat_map<Sender, OfSender> senders_;
    std::set<std::pair<std::size_t, Sender>> by_count_;  ///< by the number of inboxes
    std::uint64_t last_number_ = 0;
    std::uint64_t work_ = 0;
};

}  // namespace pulsegate
