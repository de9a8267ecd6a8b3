// What a client's packets do: the part of the broker that reads them.
#include <algorithm>
#include <utility>

#include "protocol/topic.h"
#include "server/log.h"
#include "server/session/broker.h"

namespace pulsegate {

namespace {

/// What was sent on this connection with that identifier and is not settled yet.
std::optional<Flow::List::iterator> in_flight(Session& session, std::uint16_t packet_id) {
    if (!session.flow) return std::nullopt;
    const auto entry = session.flow->find(packet_id);
    if (entry == session.flow->sent.end()) return std::nullopt;
    return entry;
}

}  // namespace

void Broker::handle(Session& session, const Packet& packet, Millis now) {
    struct Visitor {
        Broker& broker;
        Session& session;

        void operator()(const Publish& publish) { broker.on_publish(session, publish); }
        void operator()(const Puback& puback) { broker.on_puback(session, puback); }
        void operator()(const Pubrec& pubrec) { broker.on_pubrec(session, pubrec); }
        void operator()(const Pubrel& pubrel) { broker.on_pubrel(session, pubrel); }
        void operator()(const Pubcomp& pubcomp) { broker.on_pubcomp(session, pubcomp); }
        void operator()(const Subscribe& subscribe) { broker.on_subscribe(session, subscribe); }
        void operator()(const Unsubscribe& unsubscribe) {
            broker.on_unsubscribe(session, unsubscribe);
        }
        void operator()(const Pingreq&) {}  // the connection has answered it
        void operator()(const Disconnect& disconnect) { broker.on_disconnect(session, disconnect); }
        void operator()(const Connect&) { misplaced("a second CONNECT"); }
        void operator()(const Auth&) { misplaced("AUTH without an authentication method"); }
        void operator()(const Connack&) { misplaced("a packet that only servers send"); }
        void operator()(const Suback&) { misplaced("a packet that only servers send"); }
        void operator()(const Unsuback&) { misplaced("a packet that only servers send"); }
        void operator()(const Pingresp&) { misplaced("a packet that only servers send"); }

        void misplaced(const char* why) { broker.kick(session, Reason::protocol_error, why); }
    };
    now_ = now;
    std::visit(Visitor{*this, session}, packet);
}

void Broker::kick(Session& session, Reason reason, const char* why) {
    session.link->end({Cause::kicked, reason, why});
}

void Broker::on_disconnect(Session& session, const Disconnect& disconnect) {
    if (const auto asked = disconnect.properties.number(Property::session_expiry_interval)) {
        const auto most = static_cast<std::uint32_t>(settings_.max_session_expiry / 1000);
        if (session.expiry == 0 && *asked != 0 && most != 0)
            return kick(session, Reason::protocol_error,
                        "DISCONNECT would keep a session that CONNECT said to end");
        session.expiry = std::min(*asked, most);
    }
    // Only the normal disconnection takes the will back (MQTT 5.0, 3.1.2.5): with 0x04 the client
    // asks for it, with the others it says that something is wrong.
    if (disconnect.reason == Reason::success) session.testament.reset();
    session.link->end({Cause::logout, Reason::success, "the client disconnected"});
}

// -- messages from the client
// ------------------------------------------------------------------------

void Broker::on_publish(Session& session, const Publish& publish) {
    std::string_view topic = publish.topic;
    if (publish.properties.number(Property::topic_alias) && !resolve_alias(session, publish, topic))
        return;
    if (publish.qos > settings_.max_qos)
        return kick(session, Reason::qos_not_supported, "PUBLISH with a QoS above max-qos");
    const bool v5 = session.version == Version::v5_0;
    if (v5 && publish.retain && !settings_.retain_available)
        return kick(session, Reason::retain_not_supported,
                    "PUBLISH with retain, and retain-available is off");

    if (publish.qos == QoS::exactly_once && session.flow) {
        const auto& unreleased = session.flow->unreleased;
        // Method A of MQTT 5.0, figure 4.3: the identifier is remembered, the message has been
        // passed on.
        if (unreleased.contains(publish.packet_id)) return answer(session, publish, std::nullopt);
        if (v5 && unreleased.size() >= settings_.receive_maximum)
            return kick(session, Reason::receive_maximum_exceeded,
                        "more QoS 2 messages than receive-maximum are unreleased");
    }

    ++counters_.messages_in;
    const auto refusal = objection_to_message(session, publish, topic);
    if (refusal) {
        ++counters_.dropped_refused;
        if (refusal->limit) counters_.count(*refusal->limit);
        log_limited(spdlog::level::warn, "message of {} to {} dropped: {}", quoted(session.client),
                    quoted(topic), refusal->why);
        if (publish.qos == QoS::at_most_once && refusal->reason == Reason::payload_format_invalid)
            return kick(session, refusal->reason, refusal->why);
    } else {
        this->publish(make_message(topic, publish.payload, publish.properties, publish.qos,
                                   publish.retain, now_),
                      &session);
    }
    answer(session, publish, refusal);
}

/// Finds the topic, or sets the alias (MQTT 5.0, 3.3.2.3.4). False if the client was thrown out.
bool Broker::resolve_alias(Session& session, const Publish& publish, std::string_view& topic) {
    const auto alias = *publish.properties.number(Property::topic_alias);
    if (alias == 0 || alias > settings_.topic_alias_maximum) {
        kick(session, Reason::topic_alias_invalid,
             "PUBLISH with a topic alias that is 0 or above topic-alias-maximum");
        return false;
    }
    if (!session.aliases) session.aliases = std::make_unique<Aliases>();
    auto& known = session.aliases->incoming;
    if (topic.empty()) {
        if (alias > known.size() || known[alias - 1].empty()) {
            kick(session, Reason::protocol_error, "PUBLISH with a topic alias that was never set");
            return false;
        }
        topic = known[alias - 1];
        return true;
    }
    if (alias > known.size()) known.resize(alias);
    known[alias - 1] = topic;
    return true;
}

std::optional<Broker::Refusal> Broker::objection_to_message(const Session& session,
                                                            const Publish& publish,
                                                            std::string_view topic) const {
    const AccessRules* const rules = rules_of(session);
    if (rules && !rules->may_publish({session.user.name, session.client}, topic))
        return Refusal{Reason::not_authorized, "the rules don't let it publish there"};
    if (reserved_topic(topic)) return Refusal{Reason::not_authorized, "the topic is reserved"};
    if (topic.size() > settings_.max_topic_length)
        return Refusal{Reason::topic_name_invalid, "the topic is longer than max-topic-length",
                       Limit::max_topic_length};
    const bool says_text = publish.properties.number(Property::payload_format_indicator) == 1;
    if (says_text && !valid_utf8(publish.payload))
        return Refusal{Reason::payload_format_invalid,
                       "the payload is said to be UTF-8 and is not"};
    return std::nullopt;
}

void Broker::answer(Session& session, const Publish& publish,
                    const std::optional<Refusal>& refusal) {
    const auto reason = refusal ? refusal->reason : Reason::success;
    PropertyList words;
    if (refusal && session.wants_reasons) words.add(Property::reason_string, refusal->why);
    if (publish.qos == QoS::at_least_once)
        return send(session, Puback{publish.packet_id, reason, words.view()});
    if (publish.qos == QoS::at_most_once) return;
    // A refusal ends the exchange in 5.0 (4.3.3); a 3.1.1 client does not hear it and goes on.
    if (!refusal || session.version == Version::v3_1_1)
        session.flowing().unreleased.insert(publish.packet_id);
    send(session, Pubrec{publish.packet_id, reason, words.view()});
}

void Broker::on_pubrel(Session& session, const Pubrel& pubrel) {
    const bool known = session.flow && session.flow->unreleased.erase(pubrel.packet_id) > 0;
    send(session,
         Pubcomp{
             pubrel.packet_id, known ? Reason::success : Reason::packet_identifier_not_found, {}});
    forget_if_idle(session);
}

// -- acknowledgements of messages to the client
// ------------------------------------------------------

// Clients that acknowledge by hand may do it twice, or after a reconnect: what is not in flight is
// let pass.

void Broker::on_puback(Session& session, const Puback& puback) {
    const auto entry = in_flight(session, puback.packet_id);
    if (!entry) return;
    if ((*entry)->released || (*entry)->delivery.qos != QoS::at_least_once)
        return kick(session, Reason::protocol_error, "PUBACK for a message of QoS 2");
    settle(session, *entry);
}

void Broker::on_pubrec(Session& session, const Pubrec& pubrec) {
    const auto entry = in_flight(session, pubrec.packet_id);
    if (!entry) {
        if (!is_error(pubrec.reason))
            send(session, Pubrel{pubrec.packet_id, Reason::packet_identifier_not_found, {}});
        return;
    }
    Flow::InFlight& message = **entry;
    if (!message.released && message.delivery.qos != QoS::exactly_once)
        return kick(session, Reason::protocol_error, "PUBREC for a message of QoS 1");
    if (is_error(pubrec.reason)) return settle(session, *entry);
    message.released = true;
    message.delivery = {};
    send(session, Pubrel{.packet_id = pubrec.packet_id});
}

void Broker::on_pubcomp(Session& session, const Pubcomp& pubcomp) {
    const auto entry = in_flight(session, pubcomp.packet_id);
    if (!entry) return;
    if (!(*entry)->released)
        return kick(session, Reason::protocol_error, "PUBCOMP for a message that was not released");
    settle(session, *entry);
}

// -- subscriptions
// -----------------------------------------------------------------------------------

void Broker::on_subscribe(Session& session, const Subscribe& request) {
    const auto identifier =
        request.properties.number(Property::subscription_identifier).value_or(0);
    Suback suback{.packet_id = request.packet_id};
    std::vector<const SubscribeFilter*> told;  // what is retained follows the SUBACK
    PropertyList words;
    const auto most = std::max<std::size_t>(settings_.max_subscriptions, 1000);
    for (const SubscribeFilter& wanted : request.filters) {
        const auto refusal =
            suback.reasons.size() < most
                ? objection_to_filter(session, wanted.filter)
                : Refusal{Reason::quota_exceeded, "more filters at once than max-subscriptions",
                          Limit::max_subscriptions};
        if (refusal) {
            if (refusal->limit) counters_.count(*refusal->limit);
            log_limited(spdlog::level::warn, "subscription of {} to {} refused: {}",
                        quoted(session.client), quoted(wanted.filter), refusal->why);
            if (words.empty() && session.wants_reasons)
                words.add(Property::reason_string, refusal->why);
            suback.reasons.push_back(refusal->reason);
            continue;
        }
        SubscribeOptions granted = wanted.options;
        granted.qos = std::min(granted.qos, settings_.max_qos);
        const bool is_new = subscribe(session, wanted.filter, granted, identifier);
        suback.reasons.push_back(static_cast<Reason>(granted.qos));
        const bool wants_retained =
            granted.retain_handling == 0 || (granted.retain_handling == 1 && is_new);
        if (wants_retained && !shared_filter(wanted.filter)) told.push_back(&wanted);
    }
    suback.properties = words.view();
    send(session, suback);
    for (const SubscribeFilter* wanted : told) wish_retained(session, *wanted, identifier);
    if (!told.empty() && session.catch_up) catch_up(session);
}

std::optional<Broker::Refusal> Broker::objection_to_filter(Session& session,
                                                           std::string_view filter) const {
    if (!valid_topic_filter(filter))
        return Refusal{Reason::topic_filter_invalid, "the topic filter is not valid"};
    const auto levels = static_cast<std::size_t>(std::count(filter.begin(), filter.end(), '/')) + 1;
    if (filter.size() > settings_.max_topic_length)
        return Refusal{Reason::quota_exceeded, "the filter is longer than max-topic-length",
                       Limit::max_topic_length};
    if (levels > settings_.max_topic_levels)
        return Refusal{Reason::quota_exceeded, "the filter has more levels than max-topic-levels",
                       Limit::max_topic_levels};
    const AccessRules* const rules = rules_of(session);
    if (rules && !rules->may_subscribe({session.user.name, session.client}, filter))
        return Refusal{Reason::not_authorized, "the rules don't let it subscribe to that"};
    const auto shared = shared_filter(filter);
    if (shared && !settings_.shared_subscriptions)
        return Refusal{Reason::shared_subscriptions_not_supported, "shared-subscriptions is off"};
    if (!settings_.wildcard_subscriptions && has_wildcard(shared ? shared->filter : filter))
        return Refusal{Reason::wildcard_subscriptions_not_supported,
                       "wildcard-subscriptions is off"};
    if (session.subscription_count >= settings_.max_subscriptions &&
        !router_.subscribed(session.subscriptions, filter))
        return Refusal{Reason::quota_exceeded, "the client has max-subscriptions of them",
                       Limit::max_subscriptions};
    return std::nullopt;
}

/// True if the subscription is new.
bool Broker::subscribe(Session& session, std::string_view filter, SubscribeOptions options,
                       std::uint32_t identifier) {
    const bool is_new =
        router_.subscribe(session, session.subscriptions, filter, options, identifier);
    if (is_new) ++session.subscription_count;
    if (shared_filter(filter)) join(session, filter, options, identifier, is_new);
    return is_new;
}

void Broker::on_unsubscribe(Session& session, const Unsubscribe& request) {
    Unsuback unsuback{.packet_id = request.packet_id};
    for (const auto filter : request.filters) {
        if (!valid_topic_filter(filter)) {
            unsuback.reasons.push_back(Reason::topic_filter_invalid);
            continue;
        }
        const bool existed = router_.unsubscribe(session.subscriptions, filter);
        if (existed) {
            --session.subscription_count;
            if (shared_filter(filter)) leave(session, filter);
            end_catch_up(session, filter);
        }
        unsuback.reasons.push_back(existed ? Reason::success : Reason::no_subscription_existed);
    }
    send(session, unsuback);
}

}  // namespace pulsegate
