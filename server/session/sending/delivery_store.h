#pragma once

#include <cstdint>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/receipts.h"
#include "server/session/durable/shard_context.h"
#include "server/session/sending/ack_deadlines.h"
#include "server/session/state/outbox.h"
#include "server/session/state/session.h"

namespace pulsegate {

/// Decides which messages to the clients of stored sessions are stored, and when. A message that is
/// sent at QoS 1 is stored only if its client leaves, or takes longer to acknowledge it than it
/// usually does. It belongs to the shard's thread.
class DeliveryStore {
public:
    /// `totals` are the totals of the shard's outboxes.
    DeliveryStore(const ShardContext& context, Outbox::Totals& totals)
        : surroundings_(context.host),
          journal_(context.journal),
          receipts_(context.receipts),
          totals_(totals) {}

    /// The message is about to be sent to the client of a stored session. At QoS 2 it is stored,
    /// because its packet identifier is stored with it. At QoS 1 the client may acknowledge it
    /// first. `parts` has the waiters for that.
    void sent(Session& session, Outbox::InFlight& sent, PartSource& parts, Millis now);
    /// The same for a message from the queue, which was stored there.
    void sent_from_queue(Session& session, Outbox::InFlight& sent, Millis now);
    /// The client has acknowledged a message: updates the time that its acknowledgements take.
    static void acknowledged(Session& session, std::uint16_t packet_id, Millis now);

    /// Stores the delivery for the session, after all earlier messages to it.
    void store(Session& session, Delivery& delivery, PartRef part, Millis now);
    /// Stores a delivery for a session that may be on another shard. Owner 0: the session is not in
    /// the store.
    void store_for(OwnerId owner, Delivery& delivery, PartSource parts, Millis now);
    /// Stores the messages in flight that are not stored yet, because the client is gone or slow.
    void store_unstored(Session& session, Millis now);
    /// The same for clients that take longer than usual, a limited number in each round. Returns
    /// false if there are more; then the host is asked to call again.
    bool store_overdue(Millis now);
    /// Stores all messages in flight to stored sessions, with their packet identifiers.
    void store_in_flight(Millis now);

    /// Stores the packet identifiers of messages in flight at QoS 1, because the client is gone.
    /// While it is connected, `tick` does this.
    void note_identifiers(Session& session);
    /// Call it once a second.
    void tick();

    /// The session will not get this delivery.
    void drop(const Delivery& delivery);

private:
    static void note_sent(const Session& session, Outbox::InFlight& sent, Millis now);
    void note_later(const Session& session, Outbox::InFlight& sent);
    void own(Session& session, Delivery& delivery, Millis now);
    void call_store_overdue(Millis due);

    Surroundings& surroundings_;
    Journal& journal_;
    Receipts& receipts_;
    Outbox::Totals& totals_;
    AckDeadlines unstored_;
    Millis next_overdue_call_ = 0;  ///< the time at which the host was asked to call; 0: none
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
