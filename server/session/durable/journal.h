#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/receipts.h"
#include "server/session/durable/refused_operations.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/store/ledger/ledger.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// What one shard wants stored. The operations of one turn of the loop are one unit. When the store
/// refuses, because the disk is in trouble, those who wait are told so; the operations are kept
/// here and handed in again, in order, until the store takes them, for what they say is so in
/// memory. It belongs to the shard's thread.
class Journal {
public:
    Journal(const BrokerSettings& settings, ShardPlace place, BrokerHost& host, Receipts& receipts)
        : settings_(settings), place_(place), host_(host), receipts_(receipts) {}

    /// Is anything stored?
    bool is_on() const { return host_.stores(); }
    /// Would the store refuse what is added now? Another shard may have found out.
    bool would_be_refused() const { return is_refused() || host_.store_refuses(); }
    /// Has it refused something that it has not taken since?
    bool is_refused() const { return retrying_ || !refused_.operations.empty(); }

    /// Is there room for what was promised before only?
    bool takes_nothing_new() const { return host_.store_takes_nothing_new(); }

    /// Has it refused so much that clients should add nothing to it that they can be refused?
    bool is_refused_much() const {
        return is_refused() && refused_bytes() > settings_.most_unstored_bytes;
    }
    /// Nor may anybody come who would add something.
    bool is_refused_too_much() const {
        return is_refused() && refused_bytes() / 2 > settings_.most_unstored_bytes;
    }

    /// For the next owner.
    OwnerId next_owner() { return host_.next_owner(); }

    /// `debt` is held until the operation is committed.
    void add(Operation operation, DebtRef debt = {});
    /// `debt` is held until all that was added so far is committed.
    void await(DebtRef debt);
    /// The same, but for those who must not be told of a refusal: it waits until the store takes
    /// it.
    void await_patiently(DebtRef debt);
    /// For what may be lost: it waits for others, or for a second.
    void add_lazily(Operation operation);
    /// Lazily, that the owner's client is back.
    void returned(OwnerId owner);

    /// Stores the message for one receiver. For those of one turn it is stored once.
    void put(const MessageRef& message, Receiver receiver, DebtRef debt, Millis now);
    /// Stores it for the receivers of several shards, which are told when it is stored: if it is
    /// refused, later than those who refer to `debt`.
    void put(const MessageRef& message, Collected collected, const DebtRef& debt, Millis now);
    /// Stores a message that is published later. Null: it may be lost.
    void put(PutDelayed delayed, DebtRef debt);
    /// Appends to the log of events; it may be lost, unless somebody awaits it.
    void put(PutEvent event);
    /// Cancels one; the host is sent the answer, completed.
    void cancel(CancelDelayed cancel, DelayedCancelled answer);
    /// The owner has got the message, or will never get it. If the message is not stored yet, it is
    /// noted behind that, see `stored`.
    void done(OwnerId owner, Stamp stamp);

    /// A message that was collected is stored. Owners that were done with it before are so now.
    void stored(const MessageStored& message);

    /// `flush` is to be called when this turn ends.
    void begin_turn();
    /// Hands in what was added.
    void flush();

    void receive(UnitDone& done);

    /// May a crash leave messages of this owner behind without it, because the one of this shard is
    /// not committed yet?
    [[nodiscard]] bool is_new(OwnerId owner) const;

    /// Is all that was added committed?
    bool is_idle() const {
        return waiting_.empty() && !in_turn_ && turn_.operations.empty() && !is_refused();
    }

    /// Did clients of this shard come back, of which the store does not know yet?
    bool has_returns() const { return last_return_ != 0; }

    /// The number of the unit in which is what is added now.
    std::uint64_t unit() const { return handed_in_ + 1; }
    /// Is it on disk, with all before it?
    bool is_committed(std::uint64_t unit) const { return unit <= answered_ && !is_refused(); }

    /// Once a second: hands in again what was refused.
    void tick();

    /// Messages that were stored, since the start.
    std::uint64_t messages() const { return messages_; }
    /// Bytes of operations and their messages that are not committed yet.
    std::size_t bytes() const { return bytes_; }
    /// The same of those that the store has refused, and is to take later.
    std::size_t refused_bytes() const {
        return refused_.operations.bytes() + refused_.retried_bytes;
    }

private:
    /// A message that was collected, and who is to be told that it is stored.
    struct Promise {
        Stamp stamp;
        std::vector<unsigned> shards;
    };
    struct NewOwner {
        OwnerId owner;
        std::uint64_t unit;
    };
    /// Who waits for a unit.
    struct Waiting {
        std::vector<DebtRef> debts{};
        std::vector<DebtRef> patient_debts{};
        std::size_t bytes = 0;
        std::vector<DelayedCancelled> cancelled{};  ///< in the order of the operations
        std::vector<Promise> promises{};
    };
    /// What this turn has added.
    struct Turn {
        std::vector<Operation> operations{};
        Waiting waiting{};
        bool is_urgent = false;
    };
    /// What the store does not take, and who waits for it nevertheless.
    struct Refused {
        RefusedOperations operations{};
        std::vector<Promise> promises{};
        std::vector<DebtRef> patient_debts{};
        std::size_t retried_bytes = 0;  ///< of the operations that are handed in again now
        std::size_t given_back = 0;     ///< of the operations, since the last attempt
    };

    void append(Operation operation);
    void put_owner_first(Stamp stamp);
    void answer(Waiting& unit, const UnitDone& done);
    std::size_t keep(UnitDone& done, std::size_t place);
    void hand_in_again();

    const BrokerSettings& settings_;
    const ShardPlace place_;
    BrokerHost& host_;
    Receipts& receipts_;
    Turn turn_;
    bool in_turn_ = false;  ///< `flush` is to be called
    std::uint64_t messages_ = 0;
    std::deque<Waiting> waiting_;      ///< for each unit that is handed in
    std::deque<NewOwner> new_owners_;  ///< ascending
    std::uint64_t handed_in_ = 0;
    std::uint64_t answered_ = 0;     ///< of these
    std::uint64_t last_return_ = 0;  ///< the unit of it; 0: it is committed
    std::size_t bytes_ = 0;
    Refused refused_;
    bool retrying_ = false;
    /// Of units; the next one when refused ones are handed in again.
    std::uint32_t generation_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

/// A time on the monotonic clock as one on the wall clock; 0 stays 0, "never".
WallMillis as_wall_time(Millis when, Millis now);
/// The other way round.
Millis as_monotonic_time(WallMillis when, Millis now);

/// The message that `Journal::put` has stored.
MessageRef message_of(const StoredMessage& stored, Millis now);

}  // namespace pulsegate
