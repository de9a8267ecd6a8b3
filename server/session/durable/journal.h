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

/// The operations that one shard wants to store. The operations of one round of the loop are one
/// unit. If the store refuses a unit, because the disk is in trouble, all its waiters are told. But
/// memory already has the effects of the operations. So the journal keeps them and hands them in
/// again, in order, until the store accepts them. It belongs to the shard's thread.
class Journal {
public:
    Journal(const BrokerSettings& settings, ShardPlace place, BrokerHost& host, Receipts& receipts)
        : settings_(settings), place_(place), host_(host), receipts_(receipts) {}

    /// Is there a store?
    bool is_on() const { return host_.stores(); }
    /// All shards delete the same retained messages, and one of them does so in the store.
    bool stores_retained() const { return is_on() && place_.index == 0; }
    /// Would the store refuse operations that are added now? Another shard may have noticed it.
    bool would_be_refused() const { return is_refused() || host_.store_refuses(); }
    /// Has the store refused operations that it has not accepted since?
    bool is_refused() const { return retrying_ || !refused_.operations.empty(); }

    /// Is there only room for data that was promised before?
    bool takes_nothing_new() const { return host_.store_takes_nothing_new(); }

    /// Has the store refused so much that new requests of clients must be refused, if they can be?
    bool is_refused_much() const {
        return is_refused() && refused_bytes() > settings_.most_unstored_bytes;
    }
    /// Has the store refused so much that logins must be refused, too?
    bool is_refused_too_much() const {
        return is_refused() && refused_bytes() / 2 > settings_.most_unstored_bytes;
    }

    /// The number of a new owner, for a PutOwner that is added next; 0: it can't be stored.
    OwnerId next_owner();
    /// Must new owners be refused, if they can be?
    bool takes_no_new_owners() const { return is_on() && host_.takes_no_new_owners(); }

    /// `part` is held until the operation is committed.
    void add(Operation operation, PartRef part = {});
    /// `part` is held until everything that was added so far is committed.
    void await(PartRef part);
    /// The same for waiters that must not be told about a refusal: the part is held until the store
    /// accepts everything.
    void await_retries(PartRef part);
    /// Adds an operation that may be lost. It waits for other operations, at most a second.
    void add_lazily(Operation operation);
    /// Notes lazily that the owner's client is back.
    void returned(OwnerId owner);

    /// Stores the message for one receiver. It is stored once for all receivers of one round.
    void put(const MessageRef& message, Receiver receiver, PartRef part, Millis now);
    /// Stores the message for the receivers of several shards, which are told when it is stored. If
    /// the store refuses it, they are told later than the holders of `part`.
    void put(const MessageRef& message, Collected collected, const PartRef& part, Millis now);
    /// Stores a message that is published later. With a null `part`, it may be lost.
    void put(PutDelayed delayed, PartRef part);
    /// Appends to the log of events. The event may be lost, unless a part awaits it.
    void put(PutEvent event);
    /// Cancels a delayed message. The host gets the completed answer.
    void cancel(CancelDelayed cancel, DelayedCancelled answer);
    /// The owner has the message, or will never get it. If the message is not stored yet, this is
    /// noted after the message, see `stored`.
    void done(OwnerId owner, Stamp stamp);
    /// The same for all copies of the message that the store has for its receiver.
    void done(const Delivery& delivery);

    /// A collected message is stored. This notes the owners that were done with it before.
    void stored(const MessageStored& message);

    /// `flush` must be called when this round ends.
    void begin_turn();
    /// Hands in the operations that were added.
    void flush();

    void receive(UnitDone& done);

    /// Could a crash leave messages of this owner without their owner, because this shard's owner
    /// is not committed yet?
    [[nodiscard]] bool is_new(OwnerId owner) const;

    /// Is everything that was added committed?
    bool is_idle() const {
        return waiting_.empty() && !in_turn_ && turn_.operations.empty() && !is_refused();
    }

    /// Have clients of this shard come back, and does the store not know it yet?
    bool has_returns() const { return last_return_ != 0; }

    /// The number of the unit that gets the operations that are added now.
    std::uint64_t unit() const { return handed_in_ + 1; }
    /// Is this unit on disk, with all units before it?
    bool is_committed(std::uint64_t unit) const { return unit <= answered_ && !is_refused(); }

    /// Call it once a second: hands in refused operations again.
    void tick();

    /// Messages that were stored, since the start.
    std::uint64_t messages() const { return messages_; }
    /// Bytes of operations and their messages that are not committed yet.
    std::size_t bytes() const { return bytes_; }
    /// The same for operations that the store has refused, and must accept later.
    std::size_t refused_bytes() const {
        return refused_.operations.bytes() + refused_.retried_bytes;
    }

private:
    /// A collected message, and the shards that must be told when it is stored.
    struct Promise {
        Stamp stamp;
        std::vector<unsigned> shards;
    };
    struct NewOwner {
        OwnerId owner;
        std::uint64_t unit;
    };
    /// The waiters of a unit.
    struct Waiting {
        std::vector<PartRef> parts{};
        std::vector<PartRef> retried_parts{};
        std::size_t bytes = 0;
        std::vector<DelayedCancelled> cancelled{};  ///< in the order of the operations
        std::vector<Promise> promises{};
    };
    /// The operations of this round.
    struct Turn {
        std::vector<Operation> operations{};
        Waiting waiting{};
        bool is_urgent = false;
    };
    /// Operations that the store has refused, and the waiters that still wait for them.
    struct Refused {
        RefusedOperations operations{};
        std::vector<Promise> promises{};
        std::vector<PartRef> retried_parts{};
        std::size_t retried_bytes = 0;  ///< bytes of the operations that are being handed in again
        std::size_t given_back = 0;     ///< bytes of operations that were given back since the last
                                        ///< attempt
    };

    void append(Operation operation);
    void put_owner_first(Stamp stamp);
    void answer(Waiting& unit, const UnitDone& done);
    std::size_t keep(UnitDone& done, std::size_t place);
    void take_up_refused(const UnitDone& done);
    void hand_in_again();

    const BrokerSettings& settings_;
    const ShardPlace place_;
    BrokerHost& host_;
    Receipts& receipts_;
    Turn turn_;
    bool in_turn_ = false;  ///< `flush` will be called
    std::uint64_t messages_ = 0;
    std::deque<Waiting> waiting_;      ///< for each unit that was handed in
    std::deque<NewOwner> new_owners_;  ///< ascending
    std::uint64_t handed_in_ = 0;
    std::uint64_t answered_ = 0;     ///< how many of these are answered
    std::uint64_t last_return_ = 0;  ///< the unit of the last return; 0: it is committed
    std::size_t bytes_ = 0;
    Refused refused_;
    bool retrying_ = false;
    /// The generation of units. It grows when refused units are handed in again.
    std::uint32_t generation_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

/// A time on the monotonic clock as one on the wall clock; 0 stays 0, "never".
WallMillis as_wall_time(Millis when, Millis now);
/// The reverse.
Millis as_monotonic_time(WallMillis when, Millis now);

/// The message that `Journal::put` has stored.
MessageRef message_of(const StoredMessage& stored, Millis now);

}  // namespace pulsegate
