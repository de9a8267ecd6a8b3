// The way of a message to its receivers: the part of the broker that publishes and delivers.
#include <algorithm>
#include <utility>

#include "server/log.h"
#include "server/session/broker.h"

namespace pulsegate {

void Broker::publish(Message message, const Session* publisher) {
    const bool retained = message.retain && settings_.retain_available;
    if (message.retain && !retained)
        log_limited(spdlog::level::warn, "message to {} delivered, but not retained",
                    quoted(message.topic));
    if (retained) {
        message.stamp = next_stamp();
        message.publisher = publisher ? publisher->fingerprint() : 0;
    }
    const auto shared = std::make_shared<const Message>(std::move(message));
    if (retained && !retained_.keep(shared, now_)) {
        ++counters_.dropped_not_retained;
        log_limited(spdlog::level::warn,
                    "message to {} delivered, but not retained: max-retained-messages or "
                    "max-retained-bytes is reached",
                    quoted(shared->topic));
    }
    deliver_everywhere(shared, publisher);
}

void Broker::deliver(const MessageRef& message, Millis now) {
    now_ = now;
    if (message->stamp != 0) retained_.keep(message, now_);
    deliver_here(message, nullptr, inbox_owner(message->topic));
}

void Broker::deliver_everywhere(const MessageRef& message, const Session* publisher) {
    const auto owner = inbox_owner(message->topic);
    deliver_here(message, publisher, owner);
    std::optional<unsigned> inbox;
    if (owner) inbox = home(*owner, shards_);
    surroundings_.forward(message, inbox);
}

void Broker::deliver_here(const MessageRef& message, const Session* publisher,
                          const std::optional<std::string>& owner) {
    Publication publication(*message, now_);
    Delivery delivery{.message = message};
    User* const user = owner ? presence_.find(*owner) : nullptr;
    const bool declined = router_.match(message->topic, publisher, [&](const Match& match) {
        auto& session = static_cast<Session&>(*match.subscriber);
        if (message->presence_version != 0 && !keeps_up(session))
            return fall_behind(session, message->presence_version);
        const bool own_inbox = user == &session.user;
        if (own_inbox) session.served = true;
        delivery.qos = std::min(message->qos, own_inbox ? settings_.max_qos : match.qos);
        delivery.retain = message->retain && match.retain_as_published;
        delivery.identifiers = match.identifiers;
        deliver(session, delivery, publication);
    });
    if (user) deliver_to_devices(*user, message, declined ? publisher : nullptr, publication);
    groups_.match(message->topic,
                  [&](const ShareGroups::Choice& choice) { hand_out(message, choice); });
}

/// The user whose devices get what is sent to this topic, be they subscribed or not.
std::optional<std::string> Broker::inbox_owner(std::string_view topic) const {
    return settings_.inbox ? inbox_user(topic) : std::nullopt;
}

/// To those who have not got it by a subscription of their own.
void Broker::deliver_to_devices(User& user, const MessageRef& message, const Session* except,
                                Publication& publication) {
    const Delivery delivery{.message = message, .qos = std::min(message->qos, settings_.max_qos)};
    for (Device& device : user.devices) {
        ++devices_;
        auto& session = static_cast<Session&>(device);
        if (!std::exchange(session.served, false) && &session != except)
            deliver(session, delivery, publication);
    }
}

void Broker::deliver(Session& session, const Delivery& delivery, Publication& publication) {
    const bool counted = delivery.qos != QoS::at_most_once;
    if (!session.link) {
        if (counted) queue(session, delivery);
        return;
    }
    if (counted) {
        const Flow& flow = session.flowing();
        if (flow.unsent() || flow.sent.size() >= session.receive_maximum)
            return queue(session, delivery);
    }
    transmit(session, delivery, publication);
    if (counted) forget_if_idle(session);
}

/// Sends a message for the first time. There is room for it in the client's window.
void Broker::transmit(Session& session, const Delivery& delivery, Publication& publication) {
    if (delivery.qos == QoS::at_most_once) {
        send_publish(session, delivery, publication, 0, false);
        return;
    }
    Flow& flow = session.flowing();
    // Given away even if nothing is sent: the flow counts the free identifiers from here on.
    session.last_packet_id = flow.next_packet_id(session.last_packet_id);
    if (!send_publish(session, delivery, publication, session.last_packet_id, false)) return;
    flow.shared |= delivery.share != nullptr;
    flow.sent.push_back({delivery, session.last_packet_id});
}

/// False if the message is not for this client any more: expired, or larger than it takes.
bool Broker::send_publish(Session& session, const Delivery& delivery, Publication& publication,
                          std::uint16_t packet_id, bool dup) {
    const Message& message = *delivery.message;
    // What has been sent once is sent to the end (MQTT 5.0, 4.3.3).
    if (!dup && message.expired(now_)) {
        ++counters_.dropped_expired;
        return false;
    }
    Envelope envelope{.version = session.version,
                      .qos = delivery.qos,
                      .dup = dup,
                      .retain = delivery.retain,
                      .packet_id = packet_id,
                      .identifiers = delivery.identifiers};
    bool introduces = false;
    if (session.aliases && session.aliases->outgoing_maximum > 0) {
        const auto& known = session.aliases->outgoing;
        const auto found = known.find(message.topic);
        envelope.alias_known = found != known.end();
        introduces = !envelope.alias_known && known.size() < session.aliases->outgoing_maximum;
        if (envelope.alias_known) envelope.alias = found->second;
        if (introduces) envelope.alias = static_cast<std::uint16_t>(known.size() + 1);
    }
    auto packet = publication.packet(envelope);
    const auto too_large = [&] {
        return session.max_packet_size != 0 && packet.size() > session.max_packet_size;
    };
    if (too_large() && envelope.alias != 0) {  // an alias may take more bytes than a short topic
        introduces = false;
        envelope.alias = 0;
        envelope.alias_known = false;
        packet = publication.packet(envelope);
    }
    if (too_large()) {
        // MQTT 5.0, 3.1.2.11.4: what the client can't take is treated as if it had been sent.
        ++counters_.dropped_too_large;
        log_limited(
            spdlog::level::warn, "message to {} on {} dropped: {} bytes, its client takes {}",
            quoted(session.client), quoted(message.topic), packet.size(), session.max_packet_size);
        return false;
    }
    if (introduces) session.aliases->outgoing.emplace(message.topic, envelope.alias);
    ++counters_.messages_out;
    counters_.count_out(PacketType::publish);
    session.link->send(packet);
    return true;
}

// -- what waits
// ------------------------------------------------------------------------------------

/// Keeps a message for a client that is away, or whose window is full.
void Broker::queue(Session& session, const Delivery& delivery) {
    Flow& flow = session.flowing();
    const auto cost = delivery.cost();
    // For one there is always room.
    while (flow.waiting > 0 && (flow.waiting >= settings_.max_queued_messages ||
                                flow.waiting_bytes + cost > settings_.max_queued_bytes))
        lose_oldest(session);
    store_.push(session.id, delivery);
    flow.shared |= delivery.share != nullptr;
    ++flow.waiting;
    flow.waiting_bytes += cost;
    ++waiting_;
    waiting_bytes_ += cost;
}

std::optional<Delivery> Broker::take_waiting(Session& session) {
    auto delivery = store_.pop(session.id);
    if (!delivery) return std::nullopt;
    --session.flow->waiting;
    session.flow->waiting_bytes -= delivery->cost();
    --waiting_;
    waiting_bytes_ -= delivery->cost();
    return delivery;
}

/// The oldest goes: what a chat's user has not seen for longest is missed least.
void Broker::lose_oldest(Session& session) {
    const auto lost = take_waiting(session);
    if (!lost) return;
    ++counters_.dropped_queue_full;
    if (++session.flow->lost == 1)
        log_limited(spdlog::level::warn,
                    "client {} of user {} loses messages: its queue is full, the first one lost is "
                    "to {}",
                    quoted(session.client), quoted(session.user.name),
                    quoted(lost->message->topic));
}

void Broker::report_lost(Session& session) {
    if (!session.flow || session.flow->lost == 0) return;
    log_limited(spdlog::level::warn, "client {} of user {} lost {} messages to its full queue",
                quoted(session.client), quoted(session.user.name),
                std::exchange(session.flow->lost, 0));
}

/// An exchange is complete.
void Broker::settle(Session& session, Flow::List::iterator entry) {
    session.flow->sent.erase(entry);
    refill_window(session);
}

/// Sends what was interrupted and what waits, as far as the client's window and its line take it.
void Broker::refill_window(Session& session) {
    Flow& flow = *session.flow;
    while (!flow.interrupted.empty() && keeps_up(session)) {
        const auto entry = flow.interrupted.begin();
        Publication publication(*entry->delivery.message, now_);
        if (send_publish(session, entry->delivery, publication, entry->packet_id, true))
            flow.sent.splice(flow.sent.end(), flow.interrupted, entry);
        else
            flow.interrupted.erase(entry);
    }
    while (flow.waiting > 0 && keeps_up(session)) {
        const auto next = take_waiting(session);
        Publication publication(*next->message, now_);
        transmit(session, *next, publication);
    }
    // A window's worth at once may be more than the output budget: who comes back would be cut each
    // time. With a full window it is an acknowledgement that goes on.
    const bool more = flow.unsent() || (session.catch_up && session.catch_up->waiting);
    const bool window_full = flow.sent.size() >= session.receive_maximum;
    if (more && !window_full) session.link->tell_when_drained();
    if (flow.waiting > 0) return;
    report_lost(session);
    forget_if_idle(session);
}

void Broker::forget_if_idle(Session& session) {
    if (session.flow && session.flow->idle()) session.flow.reset();
}

}  // namespace pulsegate
