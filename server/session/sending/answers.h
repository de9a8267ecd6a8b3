#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "protocol/encode.h"
#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/session/durable/receipts.h"
#include "server/session/state/outbox.h"
#include "server/session/state/session.h"

namespace pulsegate {

/// Sends clients the answers to their packets, in the order of these packets, each when its receipt
/// is settled. While one answer waits, all later answers wait too. It owns nothing; it belongs to
/// the shard's thread.
class Answers {
public:
    /// `totals` are the totals of the shard's outboxes.
    Answers(Receipts& receipts, Outbox::Totals& totals, Counters& counters)
        : receipts_(receipts), totals_(totals), counters_(counters) {
        receipts_.when_ready([this](Session& session) { send_ready(session); });
    }

    template <class AnyPacket>
    void send(Session& session, const AnyPacket& packet) {
        answer(session, packet, 0);
    }

    /// Sends the CONNACK when its receipt is settled, and all other packets to the client after it.
    /// If the store refuses, the client gets `refused` instead, and its connection ends.
    void send_connack(Session& session, Buffer connack, ReceiptId receipt, Buffer refused);

    /// Sends an answer when its receipt is settled. If the store refuses, the client gets `refused`
    /// instead, or is disconnected. `charge` is the number of bytes that the client makes the
    /// gateway keep until then, besides the answer.
    template <class AnyPacket>
    void answer(Session& session, const AnyPacket& packet, ReceiptId receipt,
                const std::type_identity_t<AnyPacket>* refused = nullptr, std::size_t charge = 0);
    /// The charge for a message of this size.
    static std::size_t charge_for(std::size_t message_bytes);

    /// Answers with this reason instead of the one that was given to `answer` (MQTT 5.0, 3.4.2.1).
    /// 3.1.1 has no such reasons.
    void answer_instead(ReceiptId receipt, std::uint16_t packet_id, QoS qos, Reason reason);

    /// The same for bytes. An empty `accepted` disconnects the client, because the bytes exceed its
    /// Maximum Packet Size.
    void hold(Session& session, ReceiptId receipt, Buffer accepted, Buffer refused,
              std::size_t charge = 0, Held kind = Held::answer);

    /// The session's connection has ended, so its answers are not needed any more.
    void forget(Session& session);

    /// Has the client sent messages that are not answered yet?
    static bool has_any(const Session& session);
    /// Does the client make the gateway keep too much until its messages are answered? Then it must
    /// stop publishing.
    static bool are_too_many(const Session& session);

private:
    void send_ready(Session& session);
    static void send(const Receipt& answer, Session& session);
    template <class AnyPacket>
    static Buffer encoded(const Session& session, AnyPacket packet);
    template <class AnyPacket>
    void replace(ReceiptId receipt, const AnyPacket& packet);

    Receipts& receipts_;
    Outbox::Totals& totals_;
    Counters& counters_;
    [[no_unique_address]] OwnerThread thread_;
};

/// The packet's bytes; empty if the client's Maximum Packet Size leaves no room for it.
template <class AnyPacket>
Buffer Answers::encoded(const Session& session, AnyPacket packet) {
    Buffer bytes;
    encode(packet, session.terms.version, bytes);
    if (session.terms.takes(bytes.size())) return bytes;
    // Reason string and user properties are left out if they exceed the client's Maximum Packet
    // Size (MQTT 5.0, 3.1.2.11.4).
    packet.properties = {};
    bytes.clear();
    encode(packet, session.terms.version, bytes);
    if (!session.terms.takes(bytes.size())) bytes.clear();
    return bytes;
}

template <class AnyPacket>
void Answers::answer(Session& session, const AnyPacket& packet, ReceiptId receipt,
                     const std::type_identity_t<AnyPacket>* refused, std::size_t charge) {
    constexpr bool is_suback = std::is_same_v<AnyPacket, Suback>;
    const bool may_be_refused = refused && receipt != 0;
    hold(session, receipt, encoded(session, packet),
         may_be_refused ? encoded(session, *refused) : Buffer(), charge,
         is_suback ? Held::suback : Held::answer);
}

}  // namespace pulsegate
