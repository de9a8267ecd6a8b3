#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/encode.h"
#include "server/base/clock.h"
#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/shard_context.h"
#include "server/session/sending/ack_deadlines.h"
#include "server/session/sending/answers.h"
#include "server/session/sending/body_reader.h"
#include "server/session/sending/publish_encoder.h"
#include "server/session/sending/queue_bounds.h"
#include "server/session/state/session.h"
#include "server/session/terms/settings.h"
#include "server/session/users/history.h"

namespace pulsegate {

/// Sends messages to clients that are logged in: into the session's outbox or out through its link.
/// It belongs to the shard's thread.
class PacketSender {
public:
    explicit PacketSender(const ShardContext& context)
        : settings_(context.settings),
          surroundings_(context.host),
          journal_(context.journal),
          receipts_(context.receipts),
          tracer_(context.tracer),
          history_(context.history),
          counters_(context.counters),
          queues_(context),
          answers_(context.receipts, queues_.totals(), context.counters),
          reader_(context.host, context.journal) {}

    /// The message as PUBLISH packets; it must outlive them.
    PublishEncoder encoder(const Message& message, Millis now) const {
        return {settings_, message, now};
    }

    /// Sends the delivery, or queues it until the client's window has room or the client
    /// reconnects. QoS 0 is never queued. Messages for a stored session are stored, unless the
    /// client acknowledges them soon; `parts` has the waiters for that.
    Fate enqueue(Session& session, const Delivery& delivery, PublishEncoder& encoder, Millis now,
                 PartSource& parts);

    /// Puts a message into a queue that does not belong to a session, with the bounds of a
    /// session's queue, and in the order of stamps. `owner` is the owner of the queue in the store.
    Fate keep(Exchanges& queue, OwnerId owner, const Delivery& delivery, Millis now,
              PartSource& parts);
    /// A message that waits for the owner in the store is expired.
    void expire(OwnerId owner, Stamp stamp);

    /// Acknowledgements of the client. Some clients acknowledge twice, or after a reconnect:
    /// acknowledgements for messages that are not in flight are ignored.
    void receive(Session& session, const Puback& puback, Millis now);
    void receive(Session& session, const Pubrec& pubrec, Millis now);
    void receive(Session& session, const Pubcomp& pubcomp, Millis now);

    /// The client has reconnected: sends unacknowledged messages again (MQTT 5.0, 4.4), then the
    /// queue.
    void resume(Session& session, Millis now);

    /// Sends unacknowledged and queued messages, as far as the client's window and backlog have
    /// room.
    void send_waiting(Session& session, Millis now);
    /// A collected message is stored: sends the messages that waited for this.
    void stored(Millis now);

    /// Stores a delivery for a session that may be on another shard. Owner 0: the session is not in
    /// the store.
    void store_for(OwnerId owner, Delivery& delivery, PartSource parts, Millis now);

    /// Stores the messages in flight that are not stored yet, because the client is gone or slow.
    void store_unstored(Session& session, Millis now);
    /// The same for clients that take longer than usual, as many as a turn has time for. Returns
    /// false if there are more; then the host is asked to call again.
    bool store_overdue(Millis now);

    /// Stores all messages in flight to stored sessions, with their packet identifiers.
    void store_in_flight(Millis now);
    /// Does nothing wait for the store?
    bool is_idle() const { return reader_.is_idle() && await_store_.empty(); }

    /// The session will not get this delivery.
    void drop(const Delivery& delivery);
    /// The session will not get any of its messages. Messages with these stamps stay in the store,
    /// because they went to another session, and the store does not distinguish the two.
    void drop_all(Session& session, std::vector<Stamp> elsewhere);

    /// Messages of the session's queue were read. Returns the session, if it waits for more than
    /// that; or null.
    Session* receive(const MessagesRead& read);
    /// The session's connection has ended.
    void stop(Session& session) {
        reader_.forget(session);
        await_store_.erase(&session);
    }
    /// Once a second.
    void tick();

    /// Is the client connected, with room in its window and its backlog?
    bool keeps_up(const Session& session) const;

    /// Stores the packet identifiers of messages in flight at QoS 1, because the client is gone.
    /// While it is connected, `tick` does this.
    void note_identifiers(Session& session);

    /// Packets to clients besides messages.
    Answers& answers() { return answers_; }

    /// Where messages wait.
    QueueBounds& queues() { return queues_; }
    const QueueBounds& queues() const { return queues_; }

private:
    /// Was the message sent on an earlier connection?
    enum class SentBefore : std::uint8_t { no, perhaps, yes };

    bool send_publish(Session& session, const Delivery& delivery, std::uint16_t packet_id,
                      SentBefore sent_before, PublishEncoder& encoder, Millis now);
    void send_when_noted(Session& session, const Delivery& delivery, std::uint16_t packet_id,
                         SentBefore sent_before, std::string_view packet);
    void send_pubrel(Session& session, std::uint16_t packet_id);
    void store_or_wait(Session& session, Outbox::InFlight& sent, PartSource& parts, Millis now);
    void store(Session& session, Delivery& delivery, PartRef part, Millis now);
    void note_later(const Session& session, Outbox::InFlight& sent);
    static void note_sent(const Session& session, Outbox::InFlight& sent, Millis now);
    static void note_acknowledged(Session& session, std::uint16_t packet_id, Millis now);
    void call_store_overdue(Millis due);
    Fate told(const Session& session, const Delivery& delivery, Fate fate);
    Fate wait(Session& session, const Delivery& delivery, Millis now, PartSource& parts);
    void own(Session& session, Delivery& delivery, Millis now);
    bool awaits_store(const Session& session) const;
    void settle(Session& session, Outbox::Effect effect, const char* misplaced, Millis now);

    const BrokerSettings& settings_;
    Surroundings& surroundings_;
    Journal& journal_;
    Receipts& receipts_;
    Tracer& tracer_;
    History& history_;
    Counters& counters_;
    QueueBounds queues_;
    Answers answers_;
    BodyReader reader_;
    AckDeadlines unstored_;
    boost::unordered_flat_set<Session*> await_store_;  ///< sessions that must wait for the store
                                                       ///< before the next message is sent
    Millis next_overdue_call_ = 0;                     ///< the time at which the host was asked to
                                                       ///< call; 0: none
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
