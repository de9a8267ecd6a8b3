#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/durable/shard_context.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/delayed_publishing.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/memory_limits.h"
#include "server/session/state/tables.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

/// Handles PUBLISH, and PUBREL, which ends an exchange of QoS 2 (MQTT 5.0, 3.3 and 4.3). It owns
/// exchanges that are not stored yet; it belongs to the shard's thread.
class Publishing {
public:
    Publishing(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
               const Authorizations& authorizations, const MemoryLimits& memory, FanOut& fan_out,
               DelayedPublishing& delayed)
        : settings_(context.settings),
          presence_(tables.presence),
          sessions_(tables.sessions),
          authorizations_(authorizations),
          memory_(memory),
          rooms_(delivery.rooms),
          fan_out_(fan_out),
          delayed_(delayed),
          packets_(delivery.packets),
          answers_(delivery.packets.answers()),
          journal_(context.journal),
          receipts_(context.receipts),
          counters_(context.counters) {}

    void receive(Session& session, const Publish& publish, Millis now);
    void receive(Session& session, const Pubrel& pubrel);

    /// Publishes a message of the HTTP API. Calls `published` on this thread when the message is
    /// safe for all receivers, or when it can't be made safe.
    void publish(Message message, OnPublished published, Millis now);

private:
    std::optional<std::string_view> topic_of(Session& session, const Publish& publish);
    bool set_alias(Session& session, std::uint16_t alias, std::string_view topic);
    std::optional<Refusal> breach(const Session& session, const Publish& publish) const;
    std::optional<Refusal> objection(const Session& session, const Publish& publish,
                                     std::string_view topic,
                                     const std::optional<DelayedTopic>& delayed, Millis now) const;
    std::optional<Refusal> objection_to_topic(const Session& session, std::string_view topic) const;
    void delay(Session& session, const Publish& publish, const DelayedTopic& topic,
               std::optional<PutDelayed> put);
    bool waits_behind_others(const Session& session, QoS qos) const;
    void note_received(const Session& session, std::uint16_t packet_id, PendingReceipt& receipt,
                       bool is_kept, Millis now);
    void store_received(OwnerId owner, Millis now);
    void await_received(PutIncoming incoming, PendingReceipt& receipt);
    /// The PUBLISH that is answered.
    struct Asked {
        std::uint16_t packet_id;
        QoS qos;
        bool retain;
        bool is_kept;  ///< false: a limit forbids to retain it
    };
    Reason acceptance(const Publish& publish, const PendingReceipt& receipt, ReceiptId id,
                      bool is_kept);
    Reason verdict(const Asked& asked, const Reach& reach);
    bool must_be_disconnected(const Session& session, Reason reason) const;
    void answer_late(ReceiptId id, const Asked& asked, Reason reason);
    void acknowledge(Session& session, const Publish& publish, Reason reason, ReceiptId receipt,
                     const PropertyList& words = {});

    const BrokerSettings& settings_;
    const Presence& presence_;
    const SessionTable& sessions_;
    const Authorizations& authorizations_;
    const MemoryLimits& memory_;
    const Rooms& rooms_;
    FanOut& fan_out_;
    DelayedPublishing& delayed_;
    PacketSender& packets_;
    Answers& answers_;
    Journal& journal_;
    Receipts& receipts_;
    Counters& counters_;

    /// An answer to a repetition of a message.
    struct Repetition {
        ReceiptId receipt;
        PartRef part;
    };
    /// A message of QoS 2 that is not in the store yet, or a message of QoS 1 after such a message.
    struct Received {
        std::uint16_t packet_id;  ///< 0: of QoS 1
        MessageRef message;
        PartRef part{};  ///< null: some shards have not named its receivers yet
        Collected collected{};
        bool is_refused = false;  ///< its answer ends the exchange
        std::vector<Repetition> sent_again{};
    };
    struct Sender {
        std::string user;
        std::string client;
        std::list<Received> received;  ///< in the order of PUBLISHes
    };
    void end_refused(OwnerId owner, const Sender& sender);

    std::map<OwnerId, Sender> received_;
    std::uint64_t unit_of_received_ = 0;  ///< the journal's latest unit that has one of them
};

}  // namespace pulsegate
