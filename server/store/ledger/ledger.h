#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/base/hash.h"
#include "server/store/ledger/delayed_sums.h"
#include "server/store/ledger/owner_numbers.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// A waiting message without its body.
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

/// The amount of stored data.
struct StoredCounts {
    std::size_t owners = 0;
    std::size_t subscriptions = 0;
    std::size_t users = 0;
};

/// Keeps the data that must survive the process. It applies each unit of operations completely or
/// not at all, in the order of submission, and reports when a unit is safe. It knows neither
/// sessions nor sockets. Any thread may submit units. Completions and answers are called on the
/// ledger's thread.
class Ledger {
public:
    /// Gets the stored data. Owners come first, in the order of their numbers, then the data that
    /// belongs to them.
    class Visitor {
    public:
        virtual ~Visitor() = default;

        /// Called first, with the number of items that follow.
        virtual void expect(const StoredCounts&) {}
        virtual void owner(const PutOwner&) {}
        virtual void subscription(const PutSubscription&) {}
        virtual void session_expiry(PutSessionExpiry) {}
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
        virtual void room_position(const PutRoomPosition&) {}
    };

    /// The values from which this process continues to count.
    struct Start {
        Stamp floor = 0;                  ///< no earlier stamp was larger
        std::uint64_t version_floor = 0;  ///< no earlier version of a user's presence was larger,
                                          ///< except in the user's row
        OwnerRange owners{};              ///< numbers for new owners
        std::uint32_t next_delayed = 1;   ///< for the next `delayed_id`
        HashKey key{};                    ///< the store's own key, see `fingerprint`
    };

    virtual ~Ledger() = default;

    /// Visits all stored data except delayed messages, because these may be very many. Call it
    /// once, before anything else. Throws std::runtime_error if the store can't be read.
    virtual Start load(Visitor& visitor) = 0;

    virtual void submit(Unit unit) = 0;

    /// For operations that may be lost: the unit waits for the next commit, at most a second.
    virtual void submit_lazily(Unit unit) = 0;

    // Reads see all units that were submitted before. If the disk is in trouble, they are answered
    // as if nothing were stored, with `refused`.

    /// Messages in the order of `stamps`, without messages that are damaged or not stored.
    using MessagesAnswer = std::function<void(Outcome, std::vector<StoredMessage>)>;
    virtual void read_messages(std::vector<Stamp> stamps, MessagesAnswer answer) = 0;

    // Delayed messages, in the order of their numbers: up to `most`, and up to a few MB.

    using DelayedAnswer = std::function<void(Outcome, std::vector<PutDelayed>)>;
    /// Takes the messages that are due before `before`, in seconds since 1970. They are not taken
    /// again, and can no longer be cancelled. After a restart, messages that were not dropped are
    /// taken again. Users take turns; the messages of one user are taken in order.
    virtual void take_delayed(std::int64_t before, std::size_t most, DelayedAnswer answer) = 0;
    /// The messages of a user, or of all users, with numbers above `after`.
    virtual void list_delayed(std::optional<std::string> user, std::uint64_t after,
                              std::size_t most, DelayedAnswer answer) = 0;

    // Events, in the order of their numbers: up to `most`, and up to one MB.

    using EventsAnswer = std::function<void(Outcome, EventPage)>;
    /// Events with numbers above `after`, of the set kinds. It looks at some thousands of events.
    /// There may be none among them, but others after them.
    virtual void read_events(EventNumber after, std::uint32_t kinds, std::size_t most,
                             EventsAnswer answer) = 0;
    using DeadLettersAnswer = std::function<void(Outcome, std::vector<DeadLetter>)>;
    /// Dead letters with numbers above `after`: all of them, or only the ones that are `to_replay`.
    virtual void list_dead_letters(EventNumber after, bool to_replay, std::size_t most,
                                   DeadLettersAnswer answer) = 0;
    /// `told` is called on the ledger's thread when there are new events or something to replay,
    /// until the ledger ends.
    virtual void watch_events(std::function<void()> told) = 0;

    // State, as of the last commit.

    virtual EventLogState events() const = 0;

    /// The time at which the next delayed message is due that was not taken, in seconds since 1970.
    virtual std::int64_t next_delayed() const = 0;
    /// The total of the delayed messages of a user, or of all users.
    virtual DelayedTotal delayed_total(const std::optional<std::string>& user) const = 0;
    /// Claims room for delayed messages of a user that are not submitted yet. Returns null if they
    /// do not fit.
    virtual DelayedClaimRef claim_delayed(const std::string& user, const DelayedTotal& room,
                                          const DelayedSums::Fits& fits) = 0;
    /// The bytes that the stored data takes.
    virtual std::size_t bytes() const = 0;
    /// Is the disk in trouble, and everything refused?
    virtual bool refusing() const = 0;
    /// Is there room only for data that was promised before, and for deletions? Then `refusing` is
    /// true, too.
    virtual bool full() const { return false; }
    /// Should each source submit a unit within a second, even an empty one? The ledger then knows
    /// that it has all that was begun before, and forgets which retained messages were dropped.
    virtual bool awaits_units() const { return false; }
};

}  // namespace pulsegate
