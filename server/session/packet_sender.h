#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/encode.h"
#include "server/base/clock.h"
#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/session/broker_host.h"
#include "server/session/publish_encoder.h"
#include "server/session/session.h"
#include "server/session/settings.h"

namespace pulsegate {

/// Sends messages, and all other packets, to clients that are logged in: into the session's outbox
/// or out through its link. It owns the totals of the shard's queues; it belongs to the shard's
/// thread.
class PacketSender {
public:
    PacketSender(const BrokerSettings& settings, const BrokerHost& host, Counters& counters)
        : settings_(settings), host_(host), counters_(counters) {}

    /// Sends the delivery, or queues it until the client's window has room or the client
    /// reconnects. QoS 0 is never queued.
    void enqueue(Session& session, const Delivery& delivery, PublishEncoder& encoder, Millis now);

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

    /// Is the client connected, with room in its window and its backlog?
    bool keeps_up(const Session& session) const;

    template <class AnyPacket>
    void send(Session& session, AnyPacket packet);

    /// Entries of full queues examined since the start: the measure of a turn's work.
    std::uint64_t work() const { return work_; }

    const Outbox::Totals& waiting() const { return waiting_; }
    Outbox::Totals& waiting() { return waiting_; }

private:
    bool send_publish(Session& session, const Delivery& delivery, std::uint16_t packet_id, bool dup,
                      PublishEncoder& encoder, Millis now);
    void wait(Session& session, const Delivery& delivery);
    bool make_room(Session& session, const Delivery& delivery);
    void count_lost(Session& session, const Message& lost);
    void settle(Session& session, Outbox::Effect effect, const char* misplaced, Millis now);
    void report_lost(Session& session);

    const BrokerSettings& settings_;
    const BrokerHost& host_;
    Counters& counters_;
    Outbox::Totals waiting_;
    std::uint64_t work_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

template <class AnyPacket>
void PacketSender::send(Session& session, AnyPacket packet) {
    Buffer bytes;
    encode(packet, session.terms.version, bytes);
    if (!session.terms.takes(bytes.size())) {
        // Reason string and user properties are left out if they exceed the client's Maximum Packet
        // Size (MQTT 5.0, 3.1.2.11.4).
        packet.properties = {};
        bytes.clear();
        encode(packet, session.terms.version, bytes);
        if (!session.terms.takes(bytes.size()))
            return session.disconnect(Reason::packet_too_large,
                                      "an answer is larger than the client's Maximum Packet Size");
    }
    counters_.count_out(static_cast<PacketType>(static_cast<std::uint8_t>(bytes[0]) >> 4));
    session.link->send(bytes);
}

}  // namespace pulsegate
