#include "server/session/subscriptions.h"

#include <algorithm>

#include "protocol/topic.h"
#include "server/base/log.h"

namespace pulsegate {

void Subscriptions::receive(Session& session, const Subscribe& request, Millis now) {
    const auto identifier =
        request.properties.number(Property::subscription_identifier).value_or(0);
    Suback suback{.packet_id = request.packet_id};
    std::vector<const SubscribeFilter*> to_replay;
    PropertyList words;
    const auto most = std::max<std::size_t>(settings_.max_subscriptions, 1000);
    for (const SubscribeFilter& wanted : request.filters) {
        const auto refusal = suback.reasons.size() < most
                                 ? objection(session, wanted.filter)
                                 : Refusal{Reason::quota_exceeded,
                                           "more filters in one SUBSCRIBE than max-subscriptions",
                                           Limit::max_subscriptions};
        if (!refusal) {
            suback.reasons.push_back(subscribe(session, wanted, identifier, to_replay));
            continue;
        }
        count_refused(session, wanted.filter, *refusal);
        if (words.empty() && session.terms.wants_reasons)
            words.add(Property::reason_string, refusal->why);
        suback.reasons.push_back(refusal->reason);
    }
    suback.properties = words.view();
    sender_.send(session, suback);
    // Retained messages follow the SUBACK.
    for (const SubscribeFilter* wanted : to_replay) replay_.request(session, *wanted, identifier);
    if (!to_replay.empty() && session.replay) replay_.go_on(session, now);
}

void Subscriptions::count_refused(const Session& session, std::string_view filter,
                                  const Refusal& refusal) {
    if (refusal.limit) counters_.count(*refusal.limit);
    log_limited(spdlog::level::warn, "client {} of user {}: subscription to {} refused: {}",
                quoted(session.client), quoted(session.user.name), quoted(filter), refusal.why);
}

/// Returns the QoS that is granted, and adds the filter to those whose retained messages are to be
/// sent.
Reason Subscriptions::subscribe(Session& session, const SubscribeFilter& wanted,
                                std::uint32_t identifier,
                                std::vector<const SubscribeFilter*>& to_replay) {
    SubscribeOptions granted = wanted.options;
    granted.qos = std::min(granted.qos, settings_.max_qos);
    const bool is_new =
        session.state.subscribe(router_, session, wanted.filter, granted, identifier);
    const bool wants_retained =
        granted.retain_handling == 0 || (granted.retain_handling == 1 && is_new);
    if (shared_filter(wanted.filter))
        shared_.join(session, wanted.filter, granted, identifier);
    else if (wants_retained)
        to_replay.push_back(&wanted);
    return static_cast<Reason>(granted.qos);
}

std::optional<Refusal> Subscriptions::objection(Session& session, std::string_view filter) const {
    if (!valid_topic_filter(filter))
        return Refusal{Reason::topic_filter_invalid, "the topic filter is not valid"};
    const auto levels = static_cast<std::size_t>(std::count(filter.begin(), filter.end(), '/')) + 1;
    if (filter.size() > settings_.max_topic_length)
        return Refusal{Reason::quota_exceeded, "the filter is longer than max-topic-length",
                       Limit::max_topic_length};
    if (levels > settings_.max_topic_levels)
        return Refusal{Reason::quota_exceeded, "the filter has more levels than max-topic-levels",
                       Limit::max_topic_levels};
    const AccessRules* const rules = authorizations_.rules_of(session);
    if (rules && !rules->may_subscribe({session.user.name, session.client}, filter))
        return Refusal{Reason::not_authorized, "the rules don't allow it to subscribe to that"};
    const auto shared = shared_filter(filter);
    if (shared && !settings_.shared_subscriptions)
        return Refusal{Reason::shared_subscriptions_not_supported, "shared-subscriptions is off"};
    if (!settings_.wildcard_subscriptions && has_wildcard(shared ? shared->filter : filter))
        return Refusal{Reason::wildcard_subscriptions_not_supported,
                       "wildcard-subscriptions is off"};
    if (session.state.subscription_count() >= settings_.max_subscriptions &&
        !session.state.subscribed(router_, filter))
        return Refusal{Reason::quota_exceeded, "the client has max-subscriptions already",
                       Limit::max_subscriptions};
    return std::nullopt;
}

void Subscriptions::receive(Session& session, const Unsubscribe& request) {
    Unsuback unsuback{.packet_id = request.packet_id};
    for (const auto filter : request.filters) {
        if (!valid_topic_filter(filter)) {
            unsuback.reasons.push_back(Reason::topic_filter_invalid);
            continue;
        }
        const bool existed = session.state.unsubscribe(router_, filter);
        if (existed) {
            if (shared_filter(filter)) shared_.leave(session, filter);
            replay_.cancel(session, filter);
        }
        unsuback.reasons.push_back(existed ? Reason::success : Reason::no_subscription_existed);
    }
    sender_.send(session, unsuback);
}

}  // namespace pulsegate
