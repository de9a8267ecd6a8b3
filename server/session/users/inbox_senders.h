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

/// Who has messages in which inboxes of one shard: it says who gives way when there are too many,
/// or too little memory. The queues of inboxes tell it of each message that comes and goes. It
/// keeps the accounts of all shards up to date; it belongs to the shard's thread.
class InboxSenders {
public:
    using Sender = InboxAccounts::Sender;

    explicit InboxSenders(InboxAccounts& accounts) : accounts_(accounts) {}

    /// About what an inbox takes besides its messages, with the user's name: it is charged to
    /// everybody who has a message there.
    static constexpr std::size_t bytes_of_inbox = 2048;

    void add(const Outbox& inbox, Sender sender, std::size_t bytes);
    void remove(const Outbox& inbox, Sender sender, std::size_t bytes);

    bool takes_part(const Outbox& inbox, Sender sender) const;
    /// Has it a message in any inbox here?
    bool has_any(Sender sender) const { return senders_.contains(sender); }

    /// The inbox that gives its place to one that `newcomer` needs: one of the user with the most
    /// inboxes here, and of nobody else who has as few as the newcomer. Of some that are examined,
    /// it is the one whose most modest sender has the most inboxes. Null: there is none.
    using MayEnd = std::function<bool(const Outbox&)>;
    const Outbox* surplus(Sender newcomer, const MayEnd& may_end);

    struct Largest {
        Sender sender = InboxAccounts::gateway;
        std::size_t inboxes = 0;  ///< in which they are
        std::size_t bytes = 0;
        std::size_t sum = 0;   ///< of all users
        unsigned holders = 0;  ///< users who have any
    };
    /// A search for who takes most, which goes over several turns.
    struct Search {
        Largest largest{};                                                   ///< so far
        std::pair<std::size_t, Sender> examined{0, InboxAccounts::gateway};  ///< the last one
    };
    /// Looks at some more users, what they have with the bodies of messages, or without, which are
    /// left to the store then. True when it has looked at all.
    [[nodiscard]] bool find_largest(Search& search, bool with_bodies) const;

    /// Those in which the user has messages, the oldest first.
    std::vector<const Outbox*> inboxes_of(Sender sender, std::size_t most) const;

    /// Inboxes examined since the start: the measure of a turn's work.
    std::uint64_t work() const { return work_; }

private:
    struct Part {
        std::uint32_t messages = 0;
        std::uint64_t number = 0;  ///< later ones have larger numbers
    };
    using Parts = boost::container::flat_map<Sender, Part>;
    struct OfSender {
        std::map<std::uint64_t, const Outbox*> inboxes{};  ///< by `Part::number`
        std::size_t messages = 0;
        std::size_t bytes = 0;
        std::uint64_t examined = 0;  ///< the number that was examined last

        std::size_t cost(bool with_bodies) const;
    };

    std::size_t count_of(Sender sender) const;
    std::size_t least_count(const Parts& parts) const;
    void recount(Sender sender, std::size_t before, std::size_t now);

    InboxAccounts& accounts_;
    boost::unordered_flat_map<const Outbox*, Parts> parts_;
    boost::unordered_flat_map<Sender, OfSender> senders_;
    std::set<std::pair<std::size_t, Sender>> by_count_;  ///< how many inboxes, and their sender
    std::uint64_t last_number_ = 0;
    std::uint64_t work_ = 0;
};

}  // namespace pulsegate
