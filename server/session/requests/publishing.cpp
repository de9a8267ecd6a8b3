#include "server/session/requests/publishing.h"

#include <string>
#include <utility>

#include "protocol/utf8.h"
#include "server/base/log.h"
#include "server/message/topics.h"
#include "server/session/state/session_table.h"
#include "server/session/terms/sender_name.h"
#include "server/session/users/presence.h"

namespace pulsegate {

namespace {

/// True if the message can't be refused once it was taken. If the client missed a refusing PUBREC,
/// it would send the message again, and this could not be distinguished from a new message. So the
/// PUBREC waits for the store.
bool must_come_once(const Session& session, QoS qos) {
    return qos == QoS::exactly_once && session.state.owner != 0;
}

/// The bytes that its message takes at least.
std::size_t bytes_of(const Publish& publish) {
    return Message().cost() + publish.topic.size() + publish.payload.size();
}

}  // namespace

void Publishing::receive(Session& session, const Publish& publish, Millis now) {
    const auto topic = topic_of(session, publish);
    if (!topic) return;
    if (const auto wrong = breach(session, publish))
        return session.disconnect(wrong->reason, wrong->why);
    // Method A of MQTT 5.0, figure 4.3: the message has been delivered already; its identifier is
    // kept until the PUBREL.
    PendingReceipt receipt(receipts_);
    if (must_come_once(session, publish.qos)) receipt.await_retries();
    if (publish.qos == QoS::exactly_once &&
        session.state.exchanges().unreleased(publish.packet_id)) {
        if (session.state.owner != 0)
            await_received({session.state.owner, publish.packet_id}, receipt);
        return acknowledge(session, publish, Reason::success, receipt.close());
    }

    ++counters_.messages_in;
    const auto delayed = delayed_topic(*topic);
    std::optional<PutDelayed> put;
    auto refusal = objection(session, publish, *topic, delayed, now);
    if (!refusal && delayed && !delayed->cancels()) {
        put = delayed_.make(session, publish, *delayed, now);
        refusal = delayed_.claim(*put);
    }
    const bool waits = waits_behind_others(session, publish.qos);
    bool is_kept = true;
    if (refusal) {
        ++counters_.dropped_refused;
        if (refusal->limit) counters_.count(*refusal->limit);
        log_limited(spdlog::level::warn, "{}: message to {} dropped: {}", session.logged(),
                    in_quotes(*topic), LoggedReason{refusal->why});
        if (publish.qos == QoS::at_most_once && refusal->reason == Reason::payload_format_invalid)
            return session.disconnect(refusal->reason, refusal->why);
        // 3.1.1 has no refusals, so the client would take the answer for a promise.
        const bool is_answered = publish.qos != QoS::at_most_once;
        if (refusal->is_by_store && is_answered && session.terms.version != Version::v5_0)
            return session.link->end({Cause::kicked, refusal->reason, store_in_trouble.why, true});
    } else if (delayed) {
        return delay(session, publish, *delayed, std::move(put));
    } else {
        const bool is_answered = publish.qos != QoS::at_most_once && journal_.is_on();
        if (!is_answered) receipt.only_count();
        if (waits) receipt.collect_all();
        Message message = make_message(*topic, publish.payload, publish.properties, publish.qos,
                                       publish.retain, now);
        message.received = now;
        state_sender(settings_, message, session.user.name);
        is_kept = fan_out_.publish(std::move(message), &session, now, &receipt);
    }
    if (!refusal && must_come_once(session, publish.qos))
        note_received(session, publish.packet_id, receipt, is_kept, now);
    if (!refusal && waits) note_received(session, 0, receipt, is_kept, now);
    const ReceiptId id = receipt.close();
    PropertyList words;
    if (refusal && session.terms.wants_reasons) words.add(Property::reason_string, refusal->why);
    const Reason reason = refusal ? refusal->reason : acceptance(publish, receipt, id, is_kept);
    if (publish.qos != QoS::at_most_once && must_be_disconnected(session, reason)) {
        if (id == 0)
            return session.link->end(
                {Cause::kicked, Reason::quota_exceeded, store_in_trouble.why, true});
        receipts_.refuse(id);
    }
    acknowledge(session, publish, reason, id, words);
}

/// In 3.1.1, an answer is a promise. It must not be given if a full store has no room for the
/// message.
bool Publishing::must_be_disconnected(const Session& session, Reason reason) const {
    return session.terms.version != Version::v5_0 && reason == Reason::quota_exceeded &&
           journal_.would_be_refused();
}

/// The answer to an accepted message. If only other shards may have receivers, these shards decide
/// before the answer is sent. Without a store, the answer does not wait for them, and promises
/// less.
Reason Publishing::acceptance(const Publish& publish, const PendingReceipt& receipt, ReceiptId id,
                              bool is_kept) {
    const Reach here = receipt.reach();
    if (is_kept && (here.sent > 0 || here.queued > 0)) return Reason::success;  // the usual case
    const Asked asked{.packet_id = publish.packet_id,
                      .qos = publish.qos,
                      .retain = publish.retain,
                      .is_kept = is_kept};
    if (id == 0 && receipt.is_open()) return is_kept ? Reason::success : Reason::quota_exceeded;
    if (id == 0) return verdict(asked, here);
    receipts_.watch(id, [this, id, asked, here](const Published& published) {
        if (published.refused) return;
        Reach reach = here;
        reach += published.reach;
        answer_late(id, asked, verdict(asked, reach));
    });
    return Reason::success;
}

/// A message that a limit drops or does not retain is no success (MQTT 5.0, 3.4.2.1).
Reason Publishing::verdict(const Asked& asked, const Reach& reach) {
    if (!reach.any() && !asked.retain) ++counters_.dropped_no_receiver;
    if (!asked.is_kept || reach.is_refused()) return Reason::quota_exceeded;
    return reach.any() ? Reason::success : Reason::no_matching_subscribers;
}

/// Replaces the answer. A client of 3.1.1 gets no reason codes, so its answer stays.
void Publishing::answer_late(ReceiptId id, const Asked& asked, Reason reason) {
    Session* const session = receipts_.session_of(id);
    if (reason == Reason::success || !session) return;
    if (must_be_disconnected(*session, reason))
        receipts_.refuse(id);
    else if (session->terms.version == Version::v5_0)
        answers_.answer_instead(id, asked.packet_id, asked.qos, reason);
    else
        return;
    if (is_error(reason) && asked.qos == QoS::exactly_once)
        session->state.exchanges().release(asked.packet_id);
}

void Publishing::publish(Message message, OnPublished published, Millis now) {
    const bool is_promise = message.qos != QoS::at_most_once && journal_.is_refused();
    if (is_promise || (message.retain && journal_.is_refused_much()))
        return published({.refused = true});
    PendingReceipt receipt(receipts_);
    const bool is_retained = message.retain;
    const bool is_kept = fan_out_.publish(std::move(message), nullptr, now, &receipt);
    const ReceiptId id = receipt.close();
    receipts_.report(id, {.not_retained = !is_kept, .reach = receipt.reach()},
                     [this, is_retained, report = std::move(published)](const Published& what) {
                         if (!what.refused && !what.reach.any() && !is_retained)
                             ++counters_.dropped_no_receiver;
                         report(what);
                     });
}

void Publishing::delay(Session& session, const Publish& publish, const DelayedTopic& topic,
                       std::optional<PutDelayed> put) {
    const bool is_answered = publish.qos != QoS::at_most_once;
    PendingReceipt receipt(receipts_);
    if (must_come_once(session, publish.qos)) receipt.await_retries();
    PropertyList words;
    if (topic.cancels()) {
        delayed_.cancel(session, publish, topic.cancel, is_answered ? receipt.add_part() : 0);
    } else {
        const auto number = put->id;
        delayed_.delay(*std::move(put), is_answered ? receipt.part() : PartRef());
        // 5.0, 3.4.2.2: the user property is sent only if the client wants reasons and has room for
        // it.
        constexpr std::uint32_t room = 64;
        if (session.terms.takes_reasons && session.terms.takes(room))
            words.add_user("delay", std::to_string(number));
    }
    if (must_come_once(session, publish.qos))
        journal_.add(PutIncoming{session.state.owner, publish.packet_id}, receipt.part());
    acknowledge(session, publish, Reason::success, receipt.close(), words);
}

/// True for QoS 1 after a QoS 2 message that this shard has not submitted to the store yet. After a
/// crash, the client sends both again, so another shard must not have stored the second one
/// already.
bool Publishing::waits_behind_others(const Session& session, QoS qos) const {
    return qos == QoS::at_least_once && session.state.owner != 0 &&
           (received_.contains(session.state.owner) || unit_of_received_ == journal_.unit());
}

/// Stores the message and its packet identifier in one unit, for the receivers of all shards. If
/// the store has only the identifier, a repeated message would be ignored.
void Publishing::note_received(const Session& session, std::uint16_t packet_id,
                               PendingReceipt& receipt, bool is_kept, Millis now) {
    const OwnerId owner = session.state.owner;
    const auto [found, is_first] = received_.try_emplace(owner);
    Sender& sender = found->second;
    if (is_first) {
        sender.user = session.user.name;
        sender.client = session.client;
    }
    auto& received = sender.received;
    const auto last =
        received.insert(received.end(), {.packet_id = packet_id, .message = receipt.collected()});
    const bool can_refuse = session.terms.version == Version::v5_0;
    receipt.then([this, owner, last, can_refuse, is_kept, here = receipt.reach(), now](
                     const PartRef& part, Collected collected) {
        Reach reach = here;
        reach += collected.reach;
        last->is_refused =
            (can_refuse || journal_.would_be_refused()) && (!is_kept || reach.is_refused());
        last->part = part;
        last->collected = std::move(collected);
        store_received(owner, now);
    });
}

/// Submits messages in the order of the client's PUBLISHes, even if one of them waits longer than
/// the next. After a crash, only messages that are not stored are sent again; in another order they
/// would come too late (MQTT 5.0, 4.6).
void Publishing::store_received(OwnerId owner, Millis now) {
    const auto found = received_.find(owner);
    auto& received = found->second.received;
    for (; !received.empty() && received.front().part; received.pop_front()) {
        Received& first = received.front();
        const bool is_noted = first.packet_id != 0 && !first.is_refused;
        if (first.packet_id != 0) first.part->await_retries();
        journal_.put(first.message, std::move(first.collected), first.part, now);
        if (is_noted) journal_.add(PutIncoming{owner, first.packet_id}, first.part);
        if (first.packet_id != 0 && first.is_refused) end_refused(owner, found->second);
        for (const Repetition& each : first.sent_again) journal_.await(each.part);
        unit_of_received_ = journal_.unit();
    }
    if (received.empty()) received_.erase(found);
}

/// Ends the exchange of the sender's first message, which was refused. The connection may have
/// ended before the answer, see `answer_late`. If the client sends the message again, it must not
/// count as the repetition of an accepted one. Earlier repetitions get the same answer as the
/// message.
void Publishing::end_refused(OwnerId owner, const Sender& sender) {
    const Received& refused = sender.received.front();
    for (const Repetition& each : refused.sent_again) {
        const Session* const session = receipts_.session_of(each.receipt);
        if (session && session->terms.version == Version::v5_0)
            answers_.answer_instead(each.receipt, refused.packet_id, QoS::exactly_once,
                                    Reason::quota_exceeded);
        else if (session)
            receipts_.refuse(each.receipt);
    }
    const User* const user = presence_.find(sender.user);
    Session* const session = user ? sessions_.find(*user, sender.client) : nullptr;
    if (session && session->state.owner == owner)
        session->state.exchanges().release(refused.packet_id);
}

/// The message was sent again. It is answered together with the first one.
void Publishing::await_received(PutIncoming incoming, PendingReceipt& receipt) {
    const auto found = received_.find(incoming.owner);
    if (found != received_.end())
        for (Received& each : found->second.received)
            if (each.packet_id == incoming.packet_id) {
                const PartRef part = receipt.part();
                return each.sent_again.push_back({receipt.close(), part});
            }
    journal_.await(receipt.part());
}

/// The topic of the PUBLISH, or of its alias (MQTT 5.0, 3.3.2.3.4); nothing if the client was
/// disconnected for its alias.
std::optional<std::string_view> Publishing::topic_of(Session& session, const Publish& publish) {
    const auto stated = publish.properties.number(Property::topic_alias);
    if (!stated) return publish.topic;
    if (*stated == 0 || *stated > settings_.topic_alias_maximum) {
        session.disconnect(Reason::topic_alias_invalid,
                           "PUBLISH with a topic alias that is 0 or above topic-alias-maximum");
        return std::nullopt;
    }
    const auto alias = static_cast<std::uint16_t>(*stated);
    if (!publish.topic.empty()) {
        if (!set_alias(session, alias, publish.topic)) return std::nullopt;
        return publish.topic;
    }
    const auto topic = session.aliases ? session.aliases->topic_of(alias) : std::string_view();
    if (!topic.empty()) return topic;
    session.disconnect(Reason::protocol_error, "PUBLISH with a topic alias that was never set");
    return std::nullopt;
}

/// Returns false if the client was disconnected because its aliases take too much memory.
bool Publishing::set_alias(Session& session, std::uint16_t alias, std::string_view topic) {
    if (!session.aliases) session.aliases = std::make_unique<TopicAliases>();
    const auto before = session.aliases->bytes();
    const auto after = session.aliases->bytes_after(alias, topic);
    session.release(before);
    const bool is_large = after > before + small_message;
    const auto refusal =
        is_large ? memory_.objection_if_scarce(session, after) : memory_.objection(session, after);
    session.keep(before);
    if (!refusal) {
        session.set_alias(alias, topic);
        return true;
    }
    counters_.count(*refusal->limit);
    session.disconnect(refusal->reason, refusal->why);
    return false;
}

/// A violation of the limits in the CONNACK, for which the client is disconnected.
std::optional<Refusal> Publishing::breach(const Session& session, const Publish& publish) const {
    if (publish.qos > settings_.max_qos)
        return Refusal{Reason::qos_not_supported, "PUBLISH with a QoS above max-qos"};
    const Exchanges& exchanges = session.state.exchanges();
    const bool is_beyond = publish.qos == QoS::exactly_once &&
                           !exchanges.unreleased(publish.packet_id) &&
                           exchanges.unreleased_count() >= settings_.receive_maximum;
    if (session.terms.version != Version::v5_0) {
        // Its CONNACK has announced no limit.
        if (is_beyond && (memory_.is_scarce() || memory_.is_store_full()))
            return Refusal{Reason::quota_exceeded,
                           "memory-budget or max-data-bytes is nearly used up, and more QoS 2 "
                           "messages than receive-maximum are unreleased"};
        return std::nullopt;
    }
    if (publish.retain && !settings_.retain_available)
        return Refusal{Reason::retain_not_supported,
                       "PUBLISH with the retain flag, and retain-available is off"};
    if (is_beyond)
        return Refusal{Reason::receive_maximum_exceeded,
                       "more QoS 2 messages than receive-maximum are unreleased"};
    return std::nullopt;
}

/// The reason to refuse this message. Its client stays connected.
std::optional<Refusal> Publishing::objection(const Session& session, const Publish& publish,
                                             std::string_view topic,
                                             const std::optional<DelayedTopic>& delayed,
                                             Millis now) const {
    if (delayed)
        if (auto wrong = delayed_.objection(publish, *delayed, now)) return wrong;
    if (!delayed || !delayed->cancels()) {
        const auto target = delayed ? delayed->topic : topic;
        if (auto wrong = objection_to_topic(session, target)) return wrong;
        if (auto wrong =
                objection_to_sender(settings_, session.user.name, target, publish.properties))
            return wrong;
    }
    if (publish.qos != QoS::at_most_once && journal_.is_refused()) return store_in_trouble;
    if (must_come_once(session, publish.qos)) {
        if (journal_.would_be_refused()) return store_in_trouble;
        if (journal_.takes_nothing_new() && session.terms.version == Version::v5_0)
            return Refusal{Reason::quota_exceeded, "the store is full"};
    }
    if (publish.retain && settings_.retain_available && journal_.is_refused_much())
        return much_waits_for_store;
    const bool says_text = publish.properties.number(Property::payload_format_indicator) == 1;
    if (says_text && !valid_utf8(publish.payload))
        return Refusal{Reason::payload_format_invalid,
                       "the payload is not UTF-8 as its Payload Format Indicator states"};
    return std::nullopt;
}

std::optional<Refusal> Publishing::objection_to_topic(const Session& session,
                                                      std::string_view topic) const {
    const AccessRules* const rules = authorizations_.rules_of(session);
    if (rules && !rules->may_publish({session.user.name, session.client}, topic))
        return Refusal{Reason::not_authorized, "the rules don't allow it to publish there"};
    if (reserved_topic(topic)) return Refusal{Reason::not_authorized, "the topic is reserved"};
    if (!rooms_.admits(session.user.name, topic))
        return Refusal{Reason::not_authorized, "its user is not a member of the room"};
    if (topic.size() > settings_.max_topic_length)
        return Refusal{Reason::topic_name_invalid, "the topic is longer than max-topic-length",
                       Limit::max_topic_length};
    if (settings_.inbox && names_no_inbox(topic))
        return Refusal{Reason::topic_name_invalid, no_such_inbox};
    return std::nullopt;
}

void Publishing::acknowledge(Session& session, const Publish& publish, Reason reason,
                             ReceiptId receipt, const PropertyList& words) {
    const bool can_refuse = session.terms.version == Version::v5_0;
    const std::size_t charge = receipt == 0 ? 0 : Answers::charge_for(bytes_of(publish));
    if (publish.qos == QoS::at_least_once) {
        const Puback refused{publish.packet_id, Reason::quota_exceeded, {}};
        return answers_.answer(session, Puback{publish.packet_id, reason, words.view()}, receipt,
                               can_refuse ? &refused : nullptr, charge);
    }
    if (publish.qos == QoS::at_most_once) return;
    // A refusal ends the exchange in 5.0 (4.3.3); 3.1.1 has no refusals, so the client continues.
    if (!is_error(reason) || session.terms.version != Version::v5_0)
        session.state.exchanges().received(packets_.queues().totals(), publish.packet_id);
    const Pubrec refused{publish.packet_id, Reason::quota_exceeded, {}};
    const bool ends_if_refused = can_refuse && !must_come_once(session, publish.qos);
    if (ends_if_refused && receipt != 0)
        receipts_.watch(receipt, [this, receipt, id = publish.packet_id](const Published& what) {
            Session* const publisher = receipts_.session_of(receipt);
            if (what.refused && publisher) publisher->state.exchanges().release(id);
        });
    answers_.answer(session, Pubrec{publish.packet_id, reason, words.view()}, receipt,
                    ends_if_refused ? &refused : nullptr, charge);
}

void Publishing::receive(Session& session, const Pubrel& pubrel) {
    const bool known = session.state.exchanges().release(pubrel.packet_id);
    const auto reason = known ? Reason::success : Reason::packet_identifier_not_found;
    PendingReceipt receipt(receipts_);
    // Stored before the answer: otherwise, after a crash, the next message with this identifier
    // would count as a repetition of this one.
    if (session.state.owner != 0) {
        journal_.add(DropIncoming{session.state.owner, pubrel.packet_id});
        journal_.await_retries(receipt.part());
    }
    answers_.answer(session, Pubcomp{pubrel.packet_id, reason, {}}, receipt.close(), nullptr,
                    sizeof(Operation));
}

}  // namespace pulsegate
