#include "server/session/sending/packet_sender.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/base/log.h"
#include "server/session/sending/traced_fate.h"

namespace pulsegate {

namespace {

/// With more answers than this waiting, none waits for acknowledgements: else who publishes to
/// clients that never acknowledge would use up the room for everybody's answers.
constexpr std::size_t answers_with_patience = 4096;

/// Of the calls that store what is overdue.
constexpr Millis calls_apart = 10;

/// Messages in flight that are looked at in one turn, to be stored.
constexpr std::size_t stored_a_turn = 8192;

/// Packet identifiers that are stored at a time: what must be said again after a crash is right
/// without them, too, but for the identifier.
constexpr int notes_a_tick = 4096;

}  // namespace

// -- messages --

Fate PacketSender::enqueue(Session& session, const Delivery& delivery, PublishEncoder& encoder,
                           Millis now, PartSource& parts) {
    thread_.assert_here();
    Exchanges& exchanges = session.state.exchanges();
    if (delivery.qos == QoS::at_most_once) {
        const bool has_room = exchanges.held_message_bytes() < settings_.output_budget;
        const bool is_sent = session.has_connack() && has_room &&
                             send_publish(session, delivery, 0, SentBefore::no, encoder, now);
        return is_sent ? Fate::sent : told(session, delivery, Fate::dropped);
    }
    const bool is_held_up = exchanges.held_message_bytes() >= settings_.output_budget / 4;
    if (!session.has_connack() || is_held_up || exchanges.must_wait(session.terms.receive_maximum))
        return told(session, delivery, wait(session, delivery, now, parts));
    auto& sent = exchanges.send(queues_.totals(), delivery);
    if (session.state.owner != 0) store_or_wait(session, sent, parts, now);
    const auto packet_id = sent.packet_id;
    if (send_publish(session, sent.delivery, packet_id, SentBefore::no, encoder, now))
        return Fate::sent;
    exchanges.discard(packet_id);
    return Fate::dropped;
}

/// Tells traces, if there are some, and returns the fate.
Fate PacketSender::told(const Session& session, const Delivery& delivery, Fate fate) {
    if (tracer_.is_on()) [[unlikely]]
        trace_fate(tracer_, session, delivery, fate);
    return fate;
}

/// False if the message is not sent: it has expired, or exceeds the client's Maximum Packet Size.
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
        // An alias may take more bytes than a short topic.
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
        session.aliases->introduced(message.topic, options.alias);
    ++counters_.messages_out;
    const bool is_noted_first = delivery.qos == QoS::exactly_once && session.state.owner != 0 &&
                                delivery.owner == session.state.owner;
    if (is_noted_first) {
        send_when_noted(session, delivery, packet_id, sent_before, packet);
    } else if (session.state.exchanges().held_message_bytes() > 0) {
        // It must not overtake those that wait.
        answers_.hold(session, 0, Buffer(packet), {}, 0, Held::message);
    } else {
        counters_.count_out(PacketType::publish);
        session.link->send(packet);
    }
    return true;
}

/// Or the client would get it again after a crash, with another packet identifier. If it is sent
/// again, the client may have come back before that is stored.
void PacketSender::send_when_noted(Session& session, const Delivery& delivery,
                                   std::uint16_t packet_id, SentBefore sent_before,
                                   std::string_view packet) {
    const Stamp stamp = delivery.message->stamp;
    PendingReceipt receipt(receipts_);
    if (sent_before == SentBefore::yes)
        journal_.await(receipt.part());
    else
        journal_.add(PutExchange{session.state.owner, packet_id, stamp}, receipt.part());
    receipts_.add_part_if_collected(stamp, receipt);
    answers_.hold(session, receipt.close(), Buffer(packet), {}, 0, Held::message);
}

// -- store --

/// What is sent at QoS 2 is stored, for its identifier is noted with it; at QoS 1 the client may
/// acknowledge it first.
void PacketSender::store_or_wait(Session& session, Outbox::InFlight& sent, PartSource& parts,
                                 Millis now) {
    const Delivery& delivery = sent.delivery;
    const bool waits_too_much = receipts_.size() >= answers_with_patience;
    const Millis patience = waits_too_much ? 0 : session.state.ack_time.patience();
    note_sent(session, sent, now);
    if (delivery.qos == QoS::exactly_once || patience == 0)
        store(session, sent.delivery, parts.part(), now);
    note_later(session, sent);
    if (delivery.owner == session.state.owner || delivery.message->stamp == 0) return;
    sent.unstored = std::make_unique<Unstored>(session, parts.part(), now + patience);
    unstored_.add(*sent.unstored);
    call_store_overdue(sent.unstored->due);
}

/// For many messages at once: each call wakes the shard, and may find that all are acknowledged.
void PacketSender::call_store_overdue(Millis due) {
    const Millis when = (due + calls_apart - 1) / calls_apart * calls_apart;
    if (next_overdue_call_ != 0 && next_overdue_call_ <= when) return;
    next_overdue_call_ = when;
    surroundings_.call_store_overdue(when);
}

void PacketSender::note_sent(const Session& session, Outbox::InFlight& sent, Millis now) {
    const bool is_measured = session.state.owner != 0 && sent.delivery.qos == QoS::at_least_once;
    if (is_measured) sent.sent_at = std::max(static_cast<std::uint32_t>(now), 1u);
}

void PacketSender::note_acknowledged(Session& session, std::uint16_t packet_id, Millis now) {
    if (session.state.owner == 0) return;
    const auto sent_at = session.state.exchanges().sent_at(packet_id);
    if (sent_at != 0) session.state.ack_time.add(static_cast<std::uint32_t>(now) - sent_at);
}

/// Stores the delivery for the session, behind all that was sent to it before.
void PacketSender::store(Session& session, Delivery& delivery, PartRef part, Millis now) {
    if (session.state.owner == 0 || delivery.owner == session.state.owner) return;
    store_unstored(session, now);
    store_for(session.state.owner, delivery, PartSource(std::move(part)), now);
}

void PacketSender::store_for(OwnerId owner, Delivery& delivery, PartSource parts, Millis now) {
    const bool is_kept = owner != 0 && delivery.qos != QoS::at_most_once;
    if (!is_kept || delivery.message->stamp == 0 || delivery.owner == owner) return;
    Receiver receiver{owner, delivery.qos, delivery.retain, delivery.identifiers, delivery.share};
    const PartRef part = parts.part();
    if (part && part->collects()) {
        // Another shard must not store it before what was sent to the owner earlier.
        if (part->is_for_another_shard()) journal_.flush();
        part->collect(std::move(receiver));
        // Another shard stores it, and must not do so before the owner is stored, nor before the
        // store knows that its client is back: see Logins::send_connack_when_stored.
        if (journal_.is_new(owner) || journal_.has_returns()) journal_.await_retries(part);
    } else {
        journal_.put(delivery.message, std::move(receiver), part, now);
    }
    drop(delivery);  // another member of the group had it
    delivery.owner = owner;
}

void PacketSender::store_unstored(Session& session, Millis now) {
    session.state.exchanges().for_each_unstored([&](Outbox::InFlight& entry) {
        const auto unstored = std::move(entry.unstored);
        store_for(session.state.owner, entry.delivery, PartSource(unstored->part), now);
        note_later(session, entry);
    });
}

/// Those that are acknowledged before the next tick, which are most, cost no row.
void PacketSender::note_later(const Session& session, Outbox::InFlight& sent) {
    const Delivery& delivery = sent.delivery;
    const bool is_own = delivery.owner != 0 && delivery.owner == session.state.owner;
    if (is_own && delivery.qos == QoS::at_least_once) queues_.totals().to_note.push_back(sent);
}

void PacketSender::note_identifiers(Session& session) {
    session.state.exchanges().for_each_to_note(
        [&](Outbox::InFlight& entry) { Outbox::note(entry, journal_); });
}

void PacketSender::tick() {
    reader_.tick();
    queues_.tick();  // memory may have become scarce
    if (journal_.is_refused()) return;
    for (int room = notes_a_tick; room > 0 && !queues_.totals().to_note.empty(); --room)
        Outbox::note(queues_.totals().to_note.front(), journal_);
}

bool PacketSender::store_overdue(Millis now) {
    thread_.assert_here();
    next_overdue_call_ = 0;
    std::size_t left = stored_a_turn;
    while (Unstored* const overdue = left > 0 ? unstored_.due(now) : nullptr) {
        Session& session = overdue->session;
        left -= std::min(left, session.state.exchanges().in_flight() + 1);
        session.state.ack_time.add_late();
        store_unstored(session, now);
    }
    if (const auto next = unstored_.next()) call_store_overdue(std::max(*next, now));
    return left > 0;
}

void PacketSender::store_in_flight(Millis now) {
    thread_.assert_here();
    while (Unstored* const each = unstored_.due(now + AckDeadlines::span))
        store_unstored(each->session, now);
    while (!queues_.totals().to_note.empty())
        Outbox::note(queues_.totals().to_note.front(), journal_);
}

void PacketSender::drop(const Delivery& delivery) {
    if (delivery.owner != 0) journal_.done(delivery.owner, delivery.message->stamp);
}

void PacketSender::drop_all(Session& session, std::vector<Stamp> elsewhere) {
    std::ranges::sort(elsewhere);
    const auto is_elsewhere = [&](Stamp stamp) {
        return std::ranges::binary_search(elsewhere, stamp);
    };
    Exchanges& exchanges = session.state.exchanges();
    const OwnerId owner = session.state.owner;
    for (const QueuedMessage& each : exchanges.take_queue())
        if (!is_elsewhere(each.stamp)) queues_.drop(owner, each);
    const auto is_left = [&](const Delivery& delivery, bool) {
        return delivery.message && !is_elsewhere(delivery.message->stamp);
    };
    for (const Delivery& each : exchanges.take_if(owner, is_left)) drop(each);
}

// -- queue --

Fate PacketSender::wait(Session& session, const Delivery& delivery, Millis now, PartSource& parts) {
    const Fate room = queues_.find_room(session, delivery, now);
    if (room != Fate::queued) {
        drop(delivery);
        return room;
    }
    Delivery stored = delivery;
    if (session.state.owner != 0) store(session, stored, parts.part(), now);
    session.state.exchanges().enqueue(queues_.totals(), stored);
    queues_.leave_to_store();
    return Fate::queued;
}

Fate PacketSender::keep(Exchanges& queue, OwnerId owner, const Delivery& delivery, Millis now,
                        PartSource& parts) {
    const Fate room = queues_.find_room(queue, owner, delivery, now);
    if (room != Fate::queued) return room;
    Delivery stored = delivery;
    store_for(owner, stored, parts, now);
    queue.enqueue(queues_.totals(), stored);
    queue.order_last();
    queues_.leave_to_store();
    return Fate::queued;
}

void PacketSender::expire(OwnerId owner, Stamp stamp) {
    journal_.done(owner, stamp);
    ++counters_.dropped_expired;
}

bool PacketSender::keeps_up(const Session& session) const {
    if (!session.has_connack()) return false;
    const Exchanges& exchanges = session.state.exchanges();
    const bool window_full = exchanges.in_flight() >= session.terms.receive_maximum;
    const std::size_t backlog = session.link->backlog() + exchanges.held_message_bytes();
    return !window_full && backlog < settings_.output_budget / 4;
}

/// A message whose receivers are still collected may be sent again by its publisher after a crash,
/// as another one. A device that had it from the inbox before would get it twice.
bool PacketSender::awaits_store(const Session& session) const {
    const QueuedMessage* const next = session.state.exchanges().next_queued();
    return next && next->is_from_inbox() && receipts_.is_collected(next->stamp);
}

void PacketSender::stored(Millis now) {
    for (Session* session : std::exchange(await_store_, {})) send_waiting(*session, now);
}

void PacketSender::send_waiting(Session& session, Millis now) {
    thread_.assert_here();
    if (session.awaits_connack) return;  // the link calls when it has sent that
    Exchanges& exchanges = session.state.exchanges();
    while (keeps_up(session) && !awaits_store(session)) {
        auto* next = exchanges.send_next(session.terms.receive_maximum, session.state.owner);
        if (!next) break;
        if (next->delivery.from_inbox) own(session, next->delivery, now);
        if (!next->again) {
            note_sent(session, *next, now);
            note_later(session, *next);
        }
        const auto sent_before = next->again           ? SentBefore::yes
                                 : next->perhaps_again ? SentBefore::perhaps
                                                       : SentBefore::no;
        PublishEncoder encoder(settings_, *next->delivery.message, now);
        if (!send_publish(session, next->delivery, next->packet_id, sent_before, encoder, now))
            exchanges.discard(next->packet_id);
    }
    // The messages of one window may exceed the output budget, and a client that resumes would be
    // disconnected each time; so wait until the backlog is sent. With a full window, the next
    // acknowledgement continues; behind messages that are held, their end does.
    const bool more = exchanges.unsent() || (session.replay && session.replay->waiting);
    const bool window_full = exchanges.in_flight() >= session.terms.receive_maximum;
    if (awaits_store(session))
        await_store_.insert(&session);
    else if (exchanges.awaits_body() && keeps_up(session))
        reader_.read(session);
    else if (more && !window_full && exchanges.held_message_bytes() == 0)
        session.link->notify_when_drained();
    const Outbox* outbox = exchanges.outbox();
    if (!outbox || outbox->queued() == 0) queues_.report_lost(session);
}

/// What is from the inbox keeps its place in the store, but at QoS 2: the client's packet
/// identifier must be stored with the message.
void PacketSender::own(Session& session, Delivery& delivery, Millis now) {
    if (delivery.qos != QoS::exactly_once || session.state.owner == 0) return;
    store_for(session.state.owner, delivery, PartSource(), now);
    delivery.from_inbox = delivery.owner != session.state.owner;
}

// -- bodies --

Session* PacketSender::receive(const MessagesRead& read) {
    thread_.assert_here();
    Session* const session = reader_.receive(read);
    if (!session) return nullptr;
    const Queue lost = session->state.exchanges().put_bodies(read.asked, read.found);
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
    if (!session.state.exchanges().outbox()) return;
    queues_.report_lost(session);
    if (const Outbox* outbox = session.state.exchanges().outbox())
        outbox->for_each_released(
            [&](std::uint16_t packet_id) { send_pubrel(session, packet_id); });
    send_waiting(session, now);
}

// -- acknowledgements --

void PacketSender::receive(Session& session, const Puback& puback, Millis now) {
    thread_.assert_here();
    note_acknowledged(session, puback.packet_id, now);
    settle(session, session.state.exchanges().on_puback(puback.packet_id),
           "PUBACK for a message of QoS 2", now);
}

void PacketSender::receive(Session& session, const Pubrec& pubrec, Millis now) {
    thread_.assert_here();
    const auto effect =
        session.state.exchanges().on_pubrec(pubrec.packet_id, is_error(pubrec.reason));
    if (effect == Outbox::Effect::release) return send_pubrel(session, pubrec.packet_id);
    if (effect == Outbox::Effect::unknown && !is_error(pubrec.reason))
        return answers_.send(session,
                             Pubrel{pubrec.packet_id, Reason::packet_identifier_not_found, {}});
    settle(session, effect, "PUBREC for a message of QoS 1", now);
}

/// When it is stored that the client has received the message: else it would get it again after a
/// crash, and take it for another one.
void PacketSender::send_pubrel(Session& session, std::uint16_t packet_id) {
    PendingReceipt receipt(receipts_);
    if (session.state.owner != 0) journal_.await(receipt.part());
    answers_.answer(session, Pubrel{.packet_id = packet_id}, receipt.close());
}

void PacketSender::receive(Session& session, const Pubcomp& pubcomp, Millis now) {
    thread_.assert_here();
    settle(session, session.state.exchanges().on_pubcomp(pubcomp.packet_id),
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
