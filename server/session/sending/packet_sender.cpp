#include "server/session/sending/packet_sender.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/session/sending/traced_outcome.h"

namespace pulsegate {

// -- messages --

DeliveryOutcome PacketSender::enqueue(Session& session, const Delivery& delivery,
                                      PublishEncoder& encoder, Millis now, PartSource& parts) {
    thread_.assert_here();
    Exchanges& exchanges = session.state.exchanges();
    if (delivery.qos == QoS::at_most_once) {
        const bool has_room = exchanges.answers().message_bytes < settings_.output_budget;
        const bool is_sent = session.has_connack() && has_room &&
                             send_publish(session, delivery, 0, SentBefore::no, encoder, now);
        return is_sent ? DeliveryOutcome::sent : told(session, delivery, DeliveryOutcome::dropped);
    }
    const bool is_held_up = exchanges.answers().message_bytes >= settings_.output_budget / 4;
    const bool must_wait = exchanges.outbox().must_wait(session.terms.receive_maximum);
    if (!session.has_connack() || is_held_up || must_wait)
        return told(session, delivery, wait(session, delivery, now, parts));
    auto& sent = exchanges.send(queues_.totals(), delivery);
    if (session.state.owner != 0) store_.sent(session, sent, parts, now);
    const auto packet_id = sent.packet_id;
    if (send_publish(session, sent.delivery, packet_id, SentBefore::no, encoder, now))
        return DeliveryOutcome::sent;
    exchanges.change_outbox(&Outbox::discard, packet_id);
    return DeliveryOutcome::dropped;
}

/// Reports the outcome to traces, if there are any, and returns it.
DeliveryOutcome PacketSender::told(const Session& session, const Delivery& delivery,
                                   DeliveryOutcome outcome) {
    if (tracer_.is_on()) [[unlikely]]
        trace_outcome(tracer_, session, delivery, outcome);
    return outcome;
}

/// Returns false if the message is not sent: it has expired, or exceeds the client's Maximum Packet
/// Size.
bool PacketSender::send_publish(Session& session, const Delivery& delivery, std::uint16_t packet_id,
                                SentBefore sent_before, PublishEncoder& encoder, Millis now) {
    const Message& message = *delivery.message;
    // A message that was sent once must be sent again, expired or not (MQTT 5.0, 4.3.3).
    if (sent_before != SentBefore::yes && message.expired(now)) {
        ++counters_.dropped_expired;
        return false;
    }
    TopicAliases::Outgoing alias;
    if (session.aliases) alias = session.aliases->outgoing(message.topic);
    const bool is_new_alias = alias.alias != 0 && !alias.known;
    if (is_new_alias &&
        !memory_.has_room_for_alias(session, TopicAliases::bytes_of_outgoing(message.topic)))
        alias = {};
    PublishOptions options{.version = session.terms.version,
                           .qos = delivery.qos,
                           .dup = sent_before != SentBefore::no,
                           .retain = delivery.retain,
                           .packet_id = packet_id,
                           .identifiers = delivery.identifiers,
                           .alias = alias.alias,
                           .alias_known = alias.known};
    auto packet = encoder.packet(options);
    if (!session.terms.takes(packet.size()) && options.alias != 0) {
        // A new alias may take more bytes than it saves, so the packet is tried without it.
        options.alias = 0;
        options.alias_known = false;
        packet = encoder.packet(options);
    }
    if (!session.terms.takes(packet.size())) {
        // MQTT 5.0, 3.1.2.11.4: a packet that is too large is treated as if it had been sent.
        ++counters_.dropped_too_large;
        log_limited(spdlog::level::warn,
                    "{}: message to {} dropped: {} bytes exceed its Maximum Packet Size, {}",
                    session.logged(), in_quotes(message.topic), packet.size(),
                    session.terms.max_packet_size);
        history_.add(session.user.name, {.kind = HistoryKind::dropped,
                                         .time = wall_now(),
                                         .client = session.client,
                                         .why = "they exceed its Maximum Packet Size",
                                         .link = session.link});
        return false;
    }
    if (options.alias != 0 && !options.alias_known)
        session.introduce_alias(message.topic, options.alias);
    ++counters_.messages_out;
    const bool is_noted_first = delivery.qos == QoS::exactly_once && session.state.owner != 0 &&
                                delivery.owner == session.state.owner;
    if (is_noted_first) {
        send_when_noted(session, delivery, packet_id, sent_before, packet);
    } else if (session.state.exchanges().answers().message_bytes > 0) {
        // The packet must not overtake messages that wait.
        answers_.hold(session, 0, Buffer(packet), {}, 0, Held::message);
    } else {
        counters_.count_out(PacketType::publish);
        session.link->send(packet);
    }
    return true;
}

/// Sends the message after its packet identifier is stored. Otherwise the client would get it again
/// after a crash, with another identifier. For a message that is sent again, it also waits, because
/// the client may have come back before the identifier was stored.
void PacketSender::send_when_noted(Session& session, const Delivery& delivery,
                                   std::uint16_t packet_id, SentBefore sent_before,
                                   std::string_view packet) {
    const Stamp stamp = delivery.message->stamp;
    PendingReceipt receipt(receipts_);
    if (sent_before != SentBefore::yes)
        journal_.add(PutExchange{session.state.owner, packet_id, stamp});
    journal_.await_retries(receipt.part());
    receipts_.add_part_if_collected(stamp, receipt);
    answers_.hold(session, receipt.close(), Buffer(packet), {}, 0, Held::message);
}

void PacketSender::tick() {
    reader_.tick();
    queues_.tick();  // memory may have become scarce
    store_.tick();
}

void PacketSender::drop_all(Session& session, std::vector<Stamp> elsewhere) {
    std::ranges::sort(elsewhere);
    const auto is_elsewhere = [&](Stamp stamp) {
        return std::ranges::binary_search(elsewhere, stamp);
    };
    Exchanges& exchanges = session.state.exchanges();
    const OwnerId owner = session.state.owner;
    for (const QueuedMessage& each : exchanges.change_outbox(&Outbox::take_queue))
        if (!is_elsewhere(each.stamp)) queues_.drop(owner, each);
    const auto is_left = [&](const Delivery& delivery, bool) {
        return delivery.message && !is_elsewhere(delivery.message->stamp);
    };
    const auto left =
        exchanges.change_outbox([&](Outbox& outbox) { return outbox.take_if(owner, is_left); });
    for (const Delivery& each : left) store_.drop(each);
}

// -- queue --

DeliveryOutcome PacketSender::wait(Session& session, const Delivery& delivery, Millis now,
                                   PartSource& parts) {
    const DeliveryOutcome room = queues_.find_room(session, delivery, now);
    if (room != DeliveryOutcome::queued) {
        store_.drop(delivery);
        return room;
    }
    Delivery stored = delivery;
    if (session.state.owner != 0) store_.store(session, stored, parts.part(), now);
    session.state.exchanges().open_outbox(queues_.totals()).enqueue(stored);
    queues_.leave_to_store();
    return DeliveryOutcome::queued;
}

DeliveryOutcome PacketSender::keep(Exchanges& queue, OwnerId owner, const Delivery& delivery,
                                   Millis now, PartSource& parts) {
    const DeliveryOutcome room = queues_.find_room(queue, owner, delivery, now);
    if (room != DeliveryOutcome::queued) return room;
    Delivery stored = delivery;
    store_.store_for(owner, stored, parts, now);
    Outbox& outbox = queue.open_outbox(queues_.totals());
    outbox.enqueue(stored);
    outbox.order_last();
    queues_.leave_to_store();
    return DeliveryOutcome::queued;
}

void PacketSender::expire(OwnerId owner, Stamp stamp) {
    journal_.done(owner, stamp);
    ++counters_.dropped_expired;
}

bool PacketSender::keeps_up(const Session& session) const {
    if (!session.has_connack()) return false;
    const Exchanges& exchanges = session.state.exchanges();
    const bool window_full = exchanges.outbox().in_flight() >= session.terms.receive_maximum;
    const std::size_t backlog = session.link->backlog() + exchanges.answers().message_bytes;
    return !window_full && backlog < settings_.output_budget / 4;
}

/// True if the next message must wait until it is stored, because its receivers are still being
/// collected. After a crash, its publisher may send it again as a new message. Then a device that
/// has already got it from the inbox would get it twice.
bool PacketSender::awaits_store(const Session& session) const {
    const QueuedMessage* const next = session.state.exchanges().outbox().next_queued();
    return next && next->is_from_inbox() && receipts_.is_collected(next->stamp);
}

void PacketSender::stored(Millis now) {
    for (Session* session : std::exchange(await_store_, {})) send_waiting(*session, now);
}

void PacketSender::send_waiting(Session& session, Millis now) {
    thread_.assert_here();
    if (session.awaits_connack) return;  // the link calls `drained` after the CONNACK
    Exchanges& exchanges = session.state.exchanges();
    while (keeps_up(session) && !awaits_store(session)) {
        auto* next = exchanges.send_next(session.terms.receive_maximum, session.state.owner);
        if (!next) break;
        store_.sent_from_queue(session, *next, now);
        const auto sent_before = next->again           ? SentBefore::yes
                                 : next->perhaps_again ? SentBefore::perhaps
                                                       : SentBefore::no;
        PublishEncoder encoder(settings_, *next->delivery.message, now);
        if (!send_publish(session, next->delivery, next->packet_id, sent_before, encoder, now))
            exchanges.change_outbox(&Outbox::discard, next->packet_id);
    }
    // The messages of one window may exceed the output budget, and then a client that resumes would
    // be disconnected each time. So the rest is sent when the backlog is empty. If the window is
    // full, the next acknowledgement continues. If messages are held, the end of their wait
    // continues.
    const Outbox& outbox = exchanges.outbox();
    const bool more = outbox.unsent() || (session.replay && session.replay->waiting);
    const bool window_full = outbox.in_flight() >= session.terms.receive_maximum;
    if (awaits_store(session))
        await_store_.insert(&session);
    else if (outbox.awaits_body() && keeps_up(session))
        reader_.read(session);
    else if (more && !window_full && exchanges.answers().message_bytes == 0)
        session.link->notify_when_drained();
    if (exchanges.outbox().queued() == 0) queues_.report_lost(session);
}

// -- bodies --

Session* PacketSender::receive(const MessagesRead& read) {
    thread_.assert_here();
    Session* const session = reader_.receive(read);
    if (!session) return nullptr;
    const Queue lost =
        session->state.exchanges().change_outbox(&Outbox::put_bodies, read.asked, read.found);
    for (const QueuedMessage& message : lost) queues_.drop(session->state.owner, message);
    if (lost.empty()) return session;
    counters_.dropped_damaged += lost.size();
    log_limited(spdlog::level::err,
                "{}: {} waiting messages are lost: the store does not have them any more, or they "
                "are damaged",
                session->logged(), lost.size());
    return session;
}

void PacketSender::resume(Session& session, Millis now) {
    thread_.assert_here();
    if (session.state.exchanges().outbox().idle()) return;
    queues_.report_lost(session);
    session.state.exchanges().outbox().for_each_released(
        [&](std::uint16_t packet_id) { send_pubrel(session, packet_id); });
    send_waiting(session, now);
}

// -- acknowledgements --

void PacketSender::receive(Session& session, const Puback& puback, Millis now) {
    thread_.assert_here();
    DeliveryStore::acknowledged(session, puback.packet_id, now);
    settle(session, session.state.exchanges().change_outbox(&Outbox::on_puback, puback.packet_id),
           "PUBACK for a message of QoS 2", now);
}

void PacketSender::receive(Session& session, const Pubrec& pubrec, Millis now) {
    thread_.assert_here();
    const auto effect = session.state.exchanges().change_outbox(
        &Outbox::on_pubrec, pubrec.packet_id, is_error(pubrec.reason));
    if (effect == Outbox::Effect::release) return send_pubrel(session, pubrec.packet_id);
    if (effect == Outbox::Effect::unknown && !is_error(pubrec.reason))
        return answers_.send(session,
                             Pubrel{pubrec.packet_id, Reason::packet_identifier_not_found, {}});
    settle(session, effect, "PUBREC for a message of QoS 1", now);
}

/// Sends PUBREL when it is stored that the client has received the message. Otherwise the client
/// would get the message again after a crash, and take it for another one.
void PacketSender::send_pubrel(Session& session, std::uint16_t packet_id) {
    PendingReceipt receipt(receipts_);
    if (session.state.owner != 0) journal_.await_retries(receipt.part());
    answers_.answer(session, Pubrel{.packet_id = packet_id}, receipt.close());
}

void PacketSender::receive(Session& session, const Pubcomp& pubcomp, Millis now) {
    thread_.assert_here();
    settle(session, session.state.exchanges().change_outbox(&Outbox::on_pubcomp, pubcomp.packet_id),
           "PUBCOMP for a message that was not released", now);
}

/// Sends the next messages if an exchange is complete; disconnects the client if it broke the
/// protocol.
void PacketSender::settle(Session& session, Outbox::Effect effect, const char* misplaced,
                          Millis now) {
    if (effect == Outbox::Effect::misplaced)
        return session.disconnect(Reason::protocol_error, misplaced);
    if (effect == Outbox::Effect::settled) send_waiting(session, now);
}

}  // namespace pulsegate
