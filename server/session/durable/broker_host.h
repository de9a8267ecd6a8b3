#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/message/message.h"
#include "server/routing/interest.h"
#include "server/session/durable/own_messages.h"
#include "server/session/durable/shard_messages.h"
#include "server/session/terms/session_id.h"
#include "server/session/users/gateway_totals.h"
#include "server/session/users/presence.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

class PendingReceipt;

/// How much of memory-budget is left. At `scarce`, nothing should grow without need. At `used_up`,
/// only a reserve for new clients is left.
enum class MemoryState : std::uint8_t { plenty, scarce, used_up };

/// The links between shards.
class ShardLinks {
public:
    /// Sends the message with this topic to all other shards that may have subscribers for it or
    /// must retain it, and to the shard `inbox`, the home of the user whose inbox it is for. Each
    /// gets a part of the receipt, if there is one.
    virtual void forward(const MessageRef& message, const Interest::Topic& topic,
                         std::optional<unsigned> inbox, PendingReceipt* receipt) = 0;

    /// The Interest of a shard, this one or another.
    virtual Interest& interest(unsigned shard) = 0;

    /// Sends a message to the broker of a shard, which may be this one. It is received in a later
    /// round of the loop.
    virtual void send(unsigned shard, ShardMessage message) = 0;

    /// Leaves the task to this broker, after all tasks that already wait. It is received later, and
    /// never within this call.
    virtual void later(OwnTurn turn) = 0;

    /// Has `Broker::go_on` called in later rounds of the loop, until no recipients are left.
    virtual void deliver_later() = 0;

protected:
    ~ShardLinks() = default;
};

/// The store and its answers.
class StoreLink {
public:
    /// Does any data survive the process?
    virtual bool stores() const = 0;
    /// The number of a new owner; 0: there is none, and the owner can't be stored.
    virtual OwnerId next_owner() = 0;
    /// Are the numbers of owners nearly used up, so that new owners must be refused if they can be?
    virtual bool takes_no_new_owners() const { return false; }
    /// Does the stored data take too much room, so that nothing should grow without need?
    virtual bool is_store_full() const = 0;
    /// Must no new data be stored, because there is no room? Existing data stays.
    virtual bool store_takes_nothing_new() const { return false; }
    /// Does the store refuse everything, because the disk is in trouble? Shards may not know it
    /// yet.
    virtual bool store_refuses() const = 0;
    /// Hands in a unit. A UnitDone follows for each, in their order. `generation`: see Unit.
    virtual void submit(std::vector<Operation> operations, bool urgent,
                        std::uint32_t generation) = 0;
    /// Reads messages. A MessagesRead for the session follows.
    virtual void read_messages(SessionId session, std::vector<Stamp> stamps) = 0;

    // Delayed messages, see Ledger. They are in memory if no data survives the process.

    virtual std::uint32_t next_delayed_number() = 0;
    virtual std::int64_t next_delayed() const = 0;
    virtual DelayedClaimRef claim_delayed(const std::string& user, const DelayedTotal& room,
                                          const DelayedSums::Fits& fits) = 0;
    /// A DelayedDue follows.
    virtual void take_delayed(std::int64_t before, std::size_t most) = 0;

    /// Should each shard hand in a unit, see Ledger?
    virtual bool store_awaits_units() const { return false; }

protected:
    ~StoreLink() = default;
};

/// The process and its clock.
class Surroundings {
public:
    virtual MemoryState memory() const = 0;

    /// The totals of all shards.
    virtual GatewayTotals& totals() = 0;

    /// Calls `Broker::store_overdue` at that time.
    virtual void call_store_overdue(Millis when) = 0;

    /// Records a change of presence for `--events`.
    virtual void record(PresenceChange change) = 0;

protected:
    ~Surroundings() = default;
};

/// What a broker needs from its shard.
class BrokerHost : public ShardLinks, public StoreLink, public Surroundings {
protected:
    ~BrokerHost() = default;
};

}  // namespace pulsegate
