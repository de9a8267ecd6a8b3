#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/counters.h"
#include "server/message/topics.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/receipts.h"
#include "server/session/durable/shard_context.h"
#include "server/session/requests/delayed_terms.h"
#include "server/session/sending/answers.h"
#include "server/session/state/session.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"

namespace pulsegate {

/// Messages that clients publish to `$delayed/{when}/{topic}`. They wait in the store, ordered by
/// time, and not here. Shard 0 takes due messages, some at a time, and publishes them for all
/// shards. A message is deleted from the store in the same unit that stores it for its receivers,
/// so it is published once. It owns the messages that were taken; it belongs to the shard's thread.
class DelayedPublishing {
public:
    DelayedPublishing(const ShardContext& context, FanOut& fan_out, Answers& answers)
        : settings_(context.settings),
          place_(context.place),
          fan_out_(fan_out),
          answers_(answers),
          journal_(context.journal),
          receipts_(context.receipts),
          counters_(context.counters),
          host_(context.host) {}

    /// The reason to refuse the message; nothing if there is none.
    std::optional<Refusal> objection(const Publish& publish, const DelayedTopic& topic,
                                     Millis now) const;

    /// The message in the form that is stored. `objection` must have found nothing.
    PutDelayed make(const Session& session, const Publish& publish, const DelayedTopic& topic,
                    Millis now);
    /// Claims room for it, or returns why there is none.
    std::optional<Refusal> claim(PutDelayed& put);
    /// Stores it until it is due. With a null `part`, it may be lost.
    void delay(PutDelayed put, const PartRef& part) { journal_.put(std::move(put), part); }

    /// Cancels one of the user's messages, and settles a part of the receipt (0: none). The answer
    /// says whether there was such a message.
    void cancel(const Session& session, const Publish& publish, std::string_view name_or_number,
                ReceiptId receipt);
    void receive(const DelayedCancelled& cancelled);

    /// Immediately publishes a message that must not be lost, although no publisher waits for an
    /// answer. Until it is stored for all receivers, the store also has it as a delayed message,
    /// for the next start. This round's unit stores it. `expiry` is its Message Expiry Interval, in
    /// seconds.
    void publish_safely(Message message, std::optional<std::uint32_t> expiry,
                        const Session& publisher, Millis now);

    /// Call it once a second: begins to publish due messages, at most some thousands per second.
    void tick(Millis now);
    void receive(DelayedDue& due, Millis now);
    /// Publishes the next message that was taken.
    void publish_next(Millis now);
    /// Drops messages that were taken and are not published yet.
    std::size_t drop_taken(const DelayedByClients& which);
    /// Publishes only what the store no longer has: the others are published after the next start.
    void stop(Millis now);
    /// Continues after `stop`.
    void go_on() { stopped_ = false; }
    /// Forgets the messages that were taken, because the store was opened again: it gives them out
    /// once more.
    void forget_taken() {
        due_.clear();
        prepared_ = 0;
    }
    /// Is the store not asked for messages, is every prepared message published, and every
    /// published message stored?
    bool is_idle() const { return open_ == 0 && prepared_ == 0 && !taking_; }

private:
    void take_some(Millis now);
    bool prepare();
    void publish_deleted(Millis now);
    void publish(const PutDelayed& delayed, Millis now);
    void publish(std::uint64_t id, Message message, const Session* publisher, Millis now);
    void published();

    const BrokerSettings& settings_;
    const ShardPlace place_;
    FanOut& fan_out_;
    Answers& answers_;
    Journal& journal_;
    Receipts& receipts_;
    Counters& counters_;
    BrokerHost& host_;
    Millis ticked_ = 0;  ///< when the last tick was
    std::deque<PutDelayed> due_;
    std::size_t prepared_ = 0;  ///< the first ones: they count in this second, and the store no
                                ///< longer has those that may be lost
    bool is_dropping_ = false;  ///< the store still deletes these
    std::size_t open_ = 0;      ///< messages that are published, and not handed in to the
                                ///< journal yet; and the deletion
    std::size_t messages_left_ = 0;  ///< messages that may be published in this second
    std::size_t bytes_left_ = 0;
    bool taking_ = false;
    bool stopped_ = false;
};

}  // namespace pulsegate
