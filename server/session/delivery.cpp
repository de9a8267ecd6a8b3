// The way of a message to its receivers: the part of the broker that publishes and delivers.
#include <algorithm>
#include <utility>

#include "server/log.h"
#include "server/session/broker.h"

namespace pulsegate {

namespace {

/// What a message that waits for one client costs in memory, about.
std::size_t cost(const Message& message) {
    constexpr std::size_t bookkeeping = 256;
    return bookkeeping + message.topic.size() + message.payload.size() + message.properties.size();
}

}  // namespace

void Broker::publish(const MessageRef& message, const Session* publisher) {
    deliver_here(message, publisher);
    surroundings_.forward(message);
}

void Broker::deliver(const MessageRef& message) { deliver_here(message, nullptr); }

void Broker::deliver_here(const MessageRef& message, const Session* publisher) {
    Publication publication(*message);
    router_.match(message->topic, publisher, [&](const Match& match) {
        Session& session = *match.session;
        if (message->presence_version != 0 && !keeps_up(session))
            return fall_behind(session, message->presence_version);
        deliver(session, message, publication, std::min(message->qos, match.qos),
                message->retain && match.retain_as_published, match.identifiers);
    });
}

void Broker::deliver(Session& session, const MessageRef& message, Publication& publication, QoS qos,
                     bool retain, const std::vector<std::uint32_t>& identifiers) {
    if (qos == QoS::at_most_once)
        return transmit(session, message, publication, qos, retain, identifiers);
    if (!session.outflow) session.outflow = std::make_unique<Outflow>();
    Outflow& outflow = *session.outflow;
    if (outflow.waiting.empty() && outflow.sent.size() < session.receive_maximum)
        return transmit(session, message, publication, qos, retain, identifiers);

    const bool first = outflow.waiting.empty();  // for one there is always room
    if (!first && outflow.waiting_bytes + cost(*message) > settings_.output_budget) {
        ++counters_.dropped_slow;
        return session.link->end(
            {Cause::kicked, Reason::quota_exceeded,
             "slow consumer: too many messages wait for its acknowledgements"});
    }
    outflow.waiting.push_back({message, retain, identifiers});
    outflow.waiting_bytes += cost(*message);
}

void Broker::transmit(Session& session, const MessageRef& message, Publication& publication,
                      QoS qos, bool retain, const std::vector<std::uint32_t>& identifiers) {
    const bool counted = qos != QoS::at_most_once;
    const std::uint16_t packet_id = counted ? session.next_packet_id() : 0;
    const auto packet = publication.packet(session.version, qos, retain, packet_id, identifiers);
    if (session.max_packet_size != 0 && packet.size() > session.max_packet_size) {
        // MQTT 5.0, 3.1.2.11.4: what the client can't take is treated as if it had been sent.
        ++counters_.dropped_too_large;
        return log_limited(
            spdlog::level::warn, "message to {} on {} dropped: {} bytes, its client takes {}",
            quoted(session.client), quoted(message->topic), packet.size(), session.max_packet_size);
    }
    if (counted) session.outflow->sent.push_back(packet_id);
    ++counters_.messages_out;
    counters_.count_out(PacketType::publish);
    session.link->send(packet);
}

void Broker::on_puback(Session& session, const Puback& puback) {
    Outflow* outflow = session.outflow.get();
    if (outflow && std::erase(outflow->sent, puback.packet_id) > 0) return refill_window(session);
    // Clients that acknowledge by hand may do it twice, or after a reconnect: no harm is done.
    log_limited(spdlog::level::debug, "client {}: PUBACK {} for a message that is not in flight",
                quoted(session.client), puback.packet_id);
}

void Broker::refill_window(Session& session) {
    Outflow& outflow = *session.outflow;
    while (!outflow.waiting.empty() && outflow.sent.size() < session.receive_maximum) {
        const Outflow::Waiting next = std::move(outflow.waiting.front());
        outflow.waiting.pop_front();
        outflow.waiting_bytes -= cost(*next.message);
        Publication publication(*next.message);
        transmit(session, next.message, publication, QoS::at_least_once, next.retain,
                 next.identifiers);
    }
    if (!outflow.waiting.empty()) return;
    if (session.catch_up) session.link->tell_when_drained();
    if (outflow.sent.empty()) session.outflow.reset();
}

}  // namespace pulsegate
