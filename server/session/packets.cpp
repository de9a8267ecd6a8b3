// What a client's packets do: the part of the broker that reads them.
#include <algorithm>
#include <utility>

#include "protocol/topic.h"
#include "server/log.h"
#include "server/session/broker.h"

namespace pulsegate {

namespace {

/// Levels that a filter may have. The topic tree is walked by recursion, and each level costs
/// memory.
constexpr std::ptrdiff_t max_levels = 32;
constexpr std::size_t longest_filter = 4096;

}  // namespace

void Broker::handle(Session& session, const Packet& packet) {
    struct Visitor {
        Broker& broker;
        Session& session;

        void operator()(const Publish& publish) { broker.on_publish(session, publish); }
        void operator()(const Puback& puback) { broker.on_puback(session, puback); }
        void operator()(const Subscribe& subscribe) { broker.on_subscribe(session, subscribe); }
        void operator()(const Unsubscribe& unsubscribe) {
            broker.on_unsubscribe(session, unsubscribe);
        }
        void operator()(const Pingreq&) {}  // the connection has answered it
        void operator()(const Disconnect& disconnect) {
            // Only the normal disconnection takes the will back (MQTT 5.0, 3.1.2.5): with 0x04 the
            // client asks for it, with the others it says that something is wrong.
            if (disconnect.reason != Reason::success && session.will)
                broker.publish(std::exchange(session.will, nullptr), nullptr);
            session.link->end({Cause::logout, Reason::success, "the client disconnected"});
        }
        void operator()(const Connect&) { misplaced("a second CONNECT"); }
        void operator()(const Auth&) { misplaced("AUTH without an authentication method"); }
        void operator()(const Pubrec&) { misplaced("PUBREC for a message of QoS 1 or less"); }
        void operator()(const Pubrel&) { misplaced("PUBREL for a message of QoS 1 or less"); }
        void operator()(const Pubcomp&) { misplaced("PUBCOMP for a message of QoS 1 or less"); }
        void operator()(const Connack&) { misplaced("a packet that only servers send"); }
        void operator()(const Suback&) { misplaced("a packet that only servers send"); }
        void operator()(const Unsuback&) { misplaced("a packet that only servers send"); }
        void operator()(const Pingresp&) { misplaced("a packet that only servers send"); }

        void misplaced(const char* why) {
            session.link->end({Cause::kicked, Reason::protocol_error, why});
        }
    };
    std::visit(Visitor{*this, session}, packet);
}

void Broker::on_publish(Session& session, const Publish& publish) {
    const auto kick = [&](Reason reason, const char* why) {
        session.link->end({Cause::kicked, reason, why});
    };
    if (publish.qos == QoS::exactly_once)
        return kick(Reason::qos_not_supported, "PUBLISH with QoS 2, which is not offered");
    if (publish.properties.number(Property::topic_alias))
        return kick(Reason::topic_alias_invalid, "PUBLISH with a topic alias, none was offered");
    if (publish.retain && session.version == Version::v5_0)
        return kick(Reason::retain_not_supported, "PUBLISH with retain, which is not offered");

    ++counters_.messages_in;
    Puback puback{.packet_id = publish.packet_id};
    if (reserved_topic(publish.topic)) {
        ++counters_.dropped_forbidden;
        puback.reason = Reason::not_authorized;
        log_limited(spdlog::level::warn, "message of {} to the reserved topic {} dropped",
                    quoted(session.client), quoted(publish.topic));
    } else {
        if (publish.retain)
            log_limited(spdlog::level::warn, "message of {} to {} delivered, but not retained",
                        quoted(session.client), quoted(publish.topic));
        this->publish(
            std::make_shared<Message>(Message{.topic = std::string(publish.topic),
                                              .payload = std::string(publish.payload),
                                              .properties = travelling(publish.properties),
                                              .qos = publish.qos,
                                              .retain = publish.retain}),
            &session);
    }
    if (publish.qos == QoS::at_least_once) send(session, puback);
}

void Broker::on_subscribe(Session& session, const Subscribe& request) {
    const auto identifier =
        request.properties.number(Property::subscription_identifier).value_or(0);
    Suback suback{.packet_id = request.packet_id};
    const auto most = std::max<std::size_t>(settings_.max_subscriptions, 1000);
    for (const SubscribeFilter& wanted : request.filters) {
        const bool too_many = suback.reasons.size() >= most;
        suback.reasons.push_back(too_many ? Reason::quota_exceeded
                                          : subscribe(session, wanted, identifier));
    }
    send(session, suback);
}

Reason Broker::subscribe(Session& session, const SubscribeFilter& wanted,
                         std::uint32_t identifier) {
    const auto refuse = [&](Reason reason) {
        log_limited(spdlog::level::warn, "subscription of {} to {} refused: {}",
                    quoted(session.client), quoted(wanted.filter), name(reason));
        return reason;
    };
    if (!valid_topic_filter(wanted.filter)) return refuse(Reason::topic_filter_invalid);
    if (wanted.filter.size() > longest_filter ||
        std::count(wanted.filter.begin(), wanted.filter.end(), '/') >= max_levels)
        return refuse(Reason::quota_exceeded);
    if (shared_filter(wanted.filter)) return refuse(Reason::shared_subscriptions_not_supported);
    if (session.subscription_count >= settings_.max_subscriptions &&
        !router_.subscribed(session.subscriptions, wanted.filter))
        return refuse(Reason::quota_exceeded);

    SubscribeOptions granted = wanted.options;
    granted.qos = std::min(granted.qos, QoS::at_least_once);
    const bool is_new =
        router_.subscribe(session, session.subscriptions, wanted.filter, granted, identifier);
    if (is_new) ++session.subscription_count;
    if (granted.retain_handling == 0 || (granted.retain_handling == 1 && is_new))
        start_catch_up(session, wanted.filter, granted.qos, identifier);
    return static_cast<Reason>(granted.qos);
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
            end_catch_up(session, filter);
        }
        unsuback.reasons.push_back(existed ? Reason::success : Reason::no_subscription_existed);
    }
    send(session, unsuback);
}

}  // namespace pulsegate
