#pragma once

#include <cstddef>
#include <cstdint>

#include "server/base/counters.h"
#include "server/base/gateway_sum.h"
#include "server/base/owner_thread.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/receipts.h"
#include "server/session/durable/shard_context.h"
#include "server/session/state/outbox.h"
#include "server/session/state/session.h"
#include "server/session/terms/settings.h"
#include "server/session/users/history.h"

namespace pulsegate {

/// The bounds of all queues of a shard, including queues that do not belong to sessions: how many
/// messages and bytes may wait, which messages are dropped beyond that, and which bodies stay in
/// memory. It owns the totals of all queues; it belongs to the shard's thread.
class QueueBounds {
public:
    explicit QueueBounds(const ShardContext& context)
        : settings_(context.settings),
          shards_(context.place.homes.shards()),
          queued_(context.host.totals().queued),
          entries_(context.host.totals().queue_entries),
          host_(context.host),
          journal_(context.journal),
          receipts_(context.receipts),
          tracer_(context.tracer),
          history_(context.history),
          counters_(context.counters) {
        totals_.journal = &context.journal;
    }

    const Outbox::Totals& totals() const { return totals_; }
    Outbox::Totals& totals() { return totals_; }

    /// Makes room for a delivery if necessary: drops expired messages first, then the oldest
    /// messages of the senders with the most messages in the queue. If the result is not `queued`,
    /// there is no room, or the delivery itself has expired; then it is counted as dropped. `owner`
    /// is the owner of the queue in the store.
    DeliveryOutcome find_room(Exchanges& queue, OwnerId owner, const Delivery& delivery,
                              Millis now);
    DeliveryOutcome find_room(Session& session, const Delivery& delivery, Millis now);

    /// What a queue may hold.
    struct Bounds {
        std::size_t messages = 0;
        std::size_t bytes = 0;
    };
    /// Must the delivery not be queued for this owner, because the store takes nothing new? Then it
    /// is counted as dropped. `find_room` checks this, too.
    bool is_refused(OwnerId owner, const Delivery& delivery);

    /// Puts messages into the session's queue in the order of stamps. The queue's bounds apply, or
    /// `least` if that is more.
    void merge(Session& session, Queue messages, Bounds least, Millis now);

    /// Drops the oldest messages of one user in an inbox, up to `most`; returns how many.
    std::size_t drop_of(Session& inbox, SenderShares::Sender sender, std::size_t most);
    /// Drops the first messages of a queue that does not belong to a session, because they are no
    /// longer needed.
    void drop_first(Exchanges& queue, OwnerId owner, std::size_t count);
    /// Drops expired messages in the queue of `owner`; returns whether there were any. Call it
    /// before other messages are dropped from the queue, and before its messages are counted.
    bool drop_expired(Exchanges& queue, OwnerId owner, Millis now);
    bool drop_expired(Session& session, Millis now);
    /// Halves the bytes of a queue that does not belong to a session: drops the oldest messages of
    /// the senders with the most messages in it. Returns the number of dropped messages.
    std::size_t halve(Exchanges& queue, OwnerId owner, Millis now);

    /// A message has left the queue of `queue_owner`, which will not receive it.
    void drop(OwnerId queue_owner, const QueuedMessage& message);

    /// Reports to the log and the history how many messages the session has lost since the last
    /// report, if any.
    void report_lost(Session& session);

    /// If too many bodies are in memory, leaves the oldest bodies in the queues to the store.
    void leave_to_store();
    /// The same, and reports the exact totals of the queues to the other shards. Call it once a
    /// second.
    void tick();
    /// Bytes of the queues of all shards, without bodies.
    std::size_t bytes_of_all_entries() const {
        return entries_.all() - entries_.get() + totals_.bytes_of_entries();
    }

    /// The measure of a round's work: entries of full queues that were examined since the start.
    std::uint64_t work() const { return work_; }

    /// Bytes of messages that have expired in queues since the start.
    std::uint64_t expired_bytes() const { return expired_bytes_; }

private:
    bool has_expired(const Delivery& delivery, Millis now);
    Bounds bounds_of(const Exchanges& queue) const;
    static bool is_full(const Exchanges& queue, const Bounds& bounds, std::size_t bytes);
    bool is_short(OwnerId owner, const Exchanges& queue) const;
    template <class MakeRoom>
    bool has_room(Exchanges& queue, OwnerId owner, const Delivery& delivery, Millis now,
                  MakeRoom make_room);
    bool make_room(Exchanges& queue, OwnerId owner, const Delivery& delivery);
    void drop_surplus(Session& session, const Bounds& bounds, Millis now);
    void note_lost(Session& session);
    void tell_traces(const Session& session);
    std::size_t take_expired(Exchanges& queue, OwnerId owner, Millis now);
    bool has_too_much_in_memory() const;
    void tell_others();

    const BrokerSettings& settings_;
    const std::size_t shards_;
    ShardPart queued_;  ///< bytes in memory
    ShardPart entries_;
    BrokerHost& host_;
    Journal& journal_;
    const Receipts& receipts_;
    Tracer& tracer_;
    History& history_;
    Counters& counters_;
    Outbox::Totals totals_;
    std::uint64_t work_ = 0;
    std::uint64_t expired_bytes_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
