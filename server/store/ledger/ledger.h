#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/base/hash.h"
#include "server/store/ledger/delayed_sums.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// A message that waits, without its body.
struct WaitingMessage {
    Stamp stamp;
    WallMillis expires;
    std::uint32_t flags;
    std::uint32_t sender;
    std::size_t bytes;  ///< of properties and payload
};

/// A message with its body.
struct StoredMessage {
    Stamp stamp;
    WallMillis expires;
    std::uint32_t flags;
    std::uint32_t sender;
    MessageRef message;
};

/// How much is stored.
struct StoredCounts {
    std::size_t owners = 0;
    std::size_t subscriptions = 0;
    std::size_t users = 0;
};

/// Keeps what has to outlive the process: it takes units of operations, applies each completely or
/// not at all, in the order in which they were submitted, and tells when they are safe. It knows
/// neither sessions nor sockets. Any thread may submit; completions and answers are called on the
/// ledger's thread.
class Ledger {
public:
    /// Is told what is stored. Owners come first, in the order of their numbers, then what belongs
    /// to them.
    class Visitor {
    public:
        virtual ~Visitor() = default;

        /// Before all else: so many come.
        virtual void expect(const StoredCounts&) {}
        virtual void owner(const PutOwner&) {}
        virtual void subscription(const PutSubscription&) {}
        virtual void absence(PutAbsence) {}
        virtual void incoming(PutIncoming) {}
        virtual void exchange(PutExchange, bool /*released*/) {}
        virtual void will(const PutWill&) {}
        /// In the order of stamps.
        virtual void waiting(const WaitingMessage&, const Receiver&) {}
        virtual void retained(const PutRetained&) {}
        virtual void user(const PutUser&) {}
        virtual void ban(const PutBan&) {}
        virtual void revocation(const PutRevocation&) {}
        virtual void member(const PutMember&) {}
        virtual void away(const PutAway&) {}
    };

    /// Where this process begins to count.
    struct Start {
        Stamp floor = 0;                  ///< no stamp so far was larger
        std::uint64_t version_floor = 0;  ///< nor a version of a user's presence, but in its row
        OwnerId next_owner = 1;           ///< the least number that no owner has had
        std::uint32_t next_delayed = 1;   ///< for the next `delayed_id`
        HashKey key{};                    ///< of the store's own, see `fingerprint`
    };

    virtual ~Ledger() = default;

    /// Visits all that is stored but delayed messages: there may be very many of them. Called once,
    /// before all else. Throws std::runtime_error if the store can't be read.
    virtual Start load(Visitor& visitor) = 0;

    virtual void submit(Unit unit) = 0;

    /// For what may be lost: the unit waits for the next commit, at most a second.
    virtual void submit_lazily(Unit unit) = 0;

    // Reads see all units that were submitted before. If the disk is in trouble they are answered
    // as if nothing were stored, with `refused`.

    using OwnerAnswer = std::function<void(Outcome, std::optional<PutOwner>)>;
    virtual void find_owner(OwnerKind kind, std::string user, std::string client,
                            OwnerAnswer answer) = 0;

    /// In the order of `stamps`, without those that are not stored or whose bytes are damaged.
    using MessagesAnswer = std::function<void(Outcome, std::vector<StoredMessage>)>;
    virtual void read_messages(std::vector<Stamp> stamps, MessagesAnswer answer) = 0;

    // Delayed messages, in the order of their numbers: up to `most` of them, and a few MB.

    using DelayedAnswer = std::function<void(Outcome, std::vector<PutDelayed>)>;
    /// Takes those that are due before `before`, in seconds since 1970: they are not taken again
    /// and can't be cancelled any more. After a restart, those that were not dropped can be. Users
    /// take turns; those of one user are taken in their order.
    virtual void take_delayed(std::int64_t before, std::size_t most, DelayedAnswer answer) = 0;
    /// Those of a user, or of all, with numbers above `after`.
    virtual void list_delayed(std::optional<std::string> user, std::uint64_t after,
                              std::size_t most, DelayedAnswer answer) = 0;

    // Events, in the order of their numbers: up to `most` of them, and a MB.

    using EventsAnswer = std::function<void(Outcome, EventPage)>;
    /// Those with numbers above `after`, of the kinds that are set. Some thousands are looked
    /// at: there may be none among them, and others further on.
    virtual void read_events(EventNumber after, std::uint32_t kinds, std::size_t most,
                             EventsAnswer answer) = 0;
    using DeadLettersAnswer = std::function<void(Outcome, std::vector<DeadLetter>)>;
    /// Those with numbers above `after`; all, or those that are `to_replay`.
    virtual void list_dead_letters(EventNumber after, bool to_replay, std::size_t most,
                                   DeadLettersAnswer answer) = 0;
    /// `told` is called on the ledger's thread when there are new events or something to replay,
    /// until the ledger ends.
    virtual void watch_events(std::function<void()> told) = 0;

    // State, as of the last commit.

    virtual EventLogState events() const = 0;

    /// When the next delayed message is due that was not taken, in seconds since 1970.
    virtual std::int64_t next_delayed() const = 0;
    /// The delayed messages of a user, or of all.
    virtual DelayedTotal delayed_total(const std::optional<std::string>& user) const = 0;
    /// Room for delayed messages of a user that are not submitted yet; null: it does not fit.
    virtual DelayedClaimRef claim_delayed(const std::string& user, const DelayedTotal& room,
                                          const DelayedSums::Fits& fits) = 0;
    /// What is stored takes so much room.
    virtual std::size_t bytes() const = 0;
    /// Is the disk in trouble, and everything refused?
    virtual bool refusing() const = 0;
    /// Is there room for what was promised before only, and for deletions? Then `refusing`, too.
    virtual bool full() const { return false; }
};

}  // namespace pulsegate
