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
#include "server/session/sending/answers.h"
#include "server/session/sending/body_reader.h"
#include "server/session/sending/delivery_store.h"
#include "server/session/sending/publish_encoder.h"
#include "server/session/sending/queue_bounds.h"
#include "server/session/state/memory_limits.h"
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
          journal_(context.journal),
          receipts_(context.receipts),
          tracer_(context.tracer),
          history_(context.history),
          memory_(context.settings, context.host),
          counters_(context.counters),
          queues_(context),
          store_(context, queues_.totals()),
          answers_(context.receipts, queues_.totals(), context.counters),
          reader_(context.host, context.journal) {}

    /// The message as PUBLISH packets; it must outlive them.
    PublishEncoder encoder(const Message& message, Millis now) const {
        return {settings_, message, now};
    }

    /// Sends the delivery, or queues it until the client's window has room or the client
    /// reconnects. QoS 0 is never queued. Messages for a stored session are stored, unless the
    /// client acknowledges them soon; `parts` has the waiters for that.
    DeliveryOutcome enqueue(Session& session, const Delivery& delivery, PublishEncoder& encoder,
                            Millis now, PartSource& parts);

    /// Puts a message into a queue that does not belong to a session, with the bounds of a
    /// session's queue, and in the order of stamps. `owner` is the owner of the queue in the store.
    DeliveryOutcome keep(Exchanges& queue, OwnerId owner, const Delivery& delivery, Millis now,
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
    /// A collected message is stored: sends the messages that waited for it.
    void stored(Millis now);

    /// Does no message wait for the store?
    bool is_idle() const { return reader_.is_idle() && await_store_.empty(); }

    /// Drops all messages of the session, because it will get none of them. Messages with these
    /// stamps stay in the store: they went to another session, and the store does not distinguish
    /// the two.
    void drop_all(Session& session, std::vector<Stamp> elsewhere);

    /// Messages of the session's queue were read. Returns the session, or null if no session waits
    /// for them.
    Session* receive(const MessagesRead& read);
    /// The session's connection has ended.
    void stop(Session& session) {
        reader_.forget(session);
        await_store_.erase(&session);
    }
    /// Call it once a second.
    void tick();

    /// Is the client connected, with room in its window and its backlog?
    bool keeps_up(const Session& session) const;

    /// Packets to clients besides messages.
    Answers& answers() { return answers_; }

    /// What the store knows of the messages.
    DeliveryStore& store() { return store_; }

    /// The queues of waiting messages.
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
    DeliveryOutcome told(const Session& session, const Delivery& delivery, DeliveryOutcome outcome);
    DeliveryOutcome wait(Session& session, const Delivery& delivery, Millis now, PartSource& parts);
    bool awaits_store(const Session& session) const;
    void settle(Session& session, Outbox::Effect effect, const char* misplaced, Millis now);

    const BrokerSettings& settings_;
    Journal& journal_;
    Receipts& receipts_;
    Tracer& tracer_;
    History& history_;
    const MemoryLimits memory_;
    Counters& counters_;
    QueueBounds queues_;
    DeliveryStore store_;
    Answers answers_;
    BodyReader reader_;
    boost::unordered_flat_set<Session*> await_store_;  ///< sessions that must wait for the store
                                                       ///< before the next message is sent
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
