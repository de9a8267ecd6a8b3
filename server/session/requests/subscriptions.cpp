#include "server/session/requests/subscriptions.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <string>

#include "protocol/topic.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/message/topics.h"
#include "server/session/terms/option_bits.h"

namespace pulsegate {

namespace {

constexpr std::size_t users_judged_a_turn = 64;
/// The number of subscriptions and messages that are compared with the rules in one round. A client
/// is not divided.
constexpr std::uint64_t judged_a_turn = 4096;

/// `texts` are sorted.
bool contains(const std::vector<std::string>& texts, std::string_view text) {
    return std::ranges::binary_search(texts, text);
}

/// The reason code for the client. 3.1 has no way to refuse a subscription: its SUBACK must grant
/// the requested QoS (3.1, section 3.8).
Reason told(const Session& session, const SubscribeFilter& wanted, Reason refusal) {
    if (session.terms.version != Version::v3_1) return refusal;
    return static_cast<Reason>(wanted.options.qos);
}

/// The reason why `Rooms::may_subscribe` refuses the filter.
const char* why_closed(std::string_view filter) {
    if (shared_filter(filter)) return "shared subscriptions to rooms or presence are not allowed";
    if (room_of(filter)) return "its user is not a member of the room";
    return "its user may not watch this user";
}

bool can_refuse(const Session& session) { return session.terms.version != Version::v3_1; }

}  // namespace

void Subscriptions::receive(Session& session, const Subscribe& packet, Millis now) {
    if (session.state.owner != 0 && journal_.would_be_refused() && !can_refuse(session))
        return session.link->end(
            {Cause::kicked, store_in_trouble.reason, store_in_trouble.why, true});
    Request request{
        .identifier = packet.properties.number(Property::subscription_identifier).value_or(0),
        .packet = unstored_.begin(session.state.owner),
        .receipt = PendingReceipt(receipts_)};
    Suback suback{.packet_id = packet.packet_id};
    Suback refused = suback;
    PropertyList words;
    PropertyList words_if_refused;
    for (const SubscribeFilter& wanted : packet.filters) {
        const auto refusal = suback.reasons.size() < most_filters()
                                 ? objection(session, wanted.filter)
                                 : Refusal{Reason::quota_exceeded,
                                           "more filters in one SUBSCRIBE than max-subscriptions",
                                           Limit::max_subscriptions};
        if (!refusal) {
            suback.reasons.push_back(subscribe(session, wanted, request));
            refused.reasons.push_back(Reason::quota_exceeded);
            continue;
        }
        count_refused(session, wanted.filter, *refusal);
        if (words.empty() && session.terms.wants_reasons)
            words.add(Property::reason_string, refusal->why);
        suback.reasons.push_back(told(session, wanted, refusal->reason));
        refused.reasons.push_back(suback.reasons.back());
    }
    suback.properties = words.view();
    if (session.terms.wants_reasons)
        words_if_refused.add(Property::reason_string, store_in_trouble.why);
    refused.properties = words_if_refused.view();
    const ReceiptId receipt = request.receipt.close();
    const std::size_t charge = UnstoredSubscriptions::cost_of(request.packet);
    if (!request.packet.filters.empty()) undo_if_refused(receipt, std::move(request.packet));
    answers_.answer(session, suback, receipt, can_refuse(session) ? &refused : nullptr, charge);
    for (const SubscribeFilter* wanted : request.to_replay)
        replay_.request(session, *wanted, request.identifier);
    if (!request.to_replay.empty() && session.replay) replay_.go_on(session, now);
}

/// If the store refuses the packet, the client is told that it has no new subscriptions. So they
/// must end, now and after a restart. If the client is gone, it was told nothing, and its
/// subscriptions stay.
void Subscriptions::undo_if_refused(ReceiptId receipt, UnstoredSubscriptions::Packet packet) {
    receipts_.watch(receipt, [this, receipt, packet = std::move(packet)](const Published& what) {
        Session* const session = receipts_.session_of(receipt);
        if (!what.refused || !session) return unstored_.keep(packet);
        unstored_.undo(packet,
                       [&](const std::string& filter, const UnstoredSubscriptions::Former& former) {
                           count_refused(*session, filter, store_in_trouble);
                           restore(*session, filter, former);
                       });
    });
}

/// Restores the filter's earlier subscription after the store has refused a SUBSCRIBE.
void Subscriptions::restore(Session& session, const std::string& filter,
                            const UnstoredSubscriptions::Former& former) {
    if (!former) {
        unsubscribe(session, filter);
        return;
    }
    const auto& [options, identifier] = *former;
    session.state.subscribe(router_, session, filter, options, identifier);
    journal_.add(PutSubscription{.owner = session.state.owner,
                                 .filter = filter,
                                 .options = option_bits(options),
                                 .identifier = identifier});
    if (shared_filter(filter)) shared_.join(session, filter, options, identifier);
    replay_.change_options(session, filter, options, identifier);
}

UnstoredSubscriptions::Former Subscriptions::terms_of(const Session& session,
                                                      std::string_view filter) const {
    const Subscription* const known = session.state.subscription(router_, filter);
    if (!known) return std::nullopt;
    return UnstoredSubscriptions::Terms{known->options, known->identifier};
}

void Subscriptions::count_refused(const Session& session, std::string_view filter,
                                  const Refusal& refusal) {
    if (refusal.limit) counters_.count(*refusal.limit);
    log_limited(spdlog::level::warn, "{}: subscription to {} refused: {}", session.logged(),
                in_quotes(filter), LoggedReason{refusal.why});
}

/// Returns the granted QoS, and adds the filter to those whose retained messages must be sent.
Reason Subscriptions::subscribe(Session& session, const SubscribeFilter& wanted, Request& request) {
    const std::uint32_t identifier = request.identifier;
    if (session.state.owner != 0)
        unstored_.add(request.packet, wanted.filter, terms_of(session, wanted.filter));
    SubscribeOptions granted = wanted.options;
    granted.qos = std::min(granted.qos, settings_.max_qos);
    const bool is_new =
        session.state.subscribe(router_, session, wanted.filter, granted, identifier);
    if (is_new) session.keep(cost_of_subscription(wanted.filter));
    if (session.state.owner != 0)
        journal_.add(PutSubscription{.owner = session.state.owner,
                                     .filter = std::string(wanted.filter),
                                     .options = option_bits(granted),
                                     .identifier = identifier},
                     request.receipt.part());
    const bool wants_retained =
        !shared_filter(wanted.filter) &&
        (granted.retain_handling == 0 || (granted.retain_handling == 1 && is_new));
    if (wants_retained)
        replay_.mark_owed(session, wanted.filter);
    else if (!is_new)  // the earlier subscription may still wait for some
        replay_.change_options(session, wanted.filter, granted, identifier);
    // Messages that are published after the SUBACK must find the member in its group.
    if (shared_filter(wanted.filter))
        shared_.join(session, wanted.filter, granted, identifier, &request.receipt);
    if (wants_retained) request.to_replay.push_back(&wanted);
    return static_cast<Reason>(granted.qos);
}

std::optional<Refusal> Subscriptions::objection(Session& session, std::string_view filter) const {
    if (!valid_topic_filter(filter))
        return Refusal{Reason::topic_filter_invalid, "it is not a shared subscription"};
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
    if (!rooms_.may_subscribe(session.user.name, filter))
        return Refusal{Reason::not_authorized, why_closed(filter)};
    const auto shared = shared_filter(filter);
    if (shared && !settings_.shared_subscriptions)
        return Refusal{Reason::shared_subscriptions_not_supported, "shared-subscriptions is off"};
    if (!settings_.wildcard_subscriptions && has_wildcard(shared ? shared->filter : filter))
        return Refusal{Reason::wildcard_subscriptions_not_supported,
                       "wildcard-subscriptions is off"};
    if (session.state.owner != 0 && journal_.would_be_refused()) return store_in_trouble;
    if (session.state.subscribed(router_, filter)) return std::nullopt;
    if (session.state.subscription_count() >=
        std::min<std::size_t>(settings_.max_subscriptions, SessionState::most_subscriptions))
        return Refusal{Reason::quota_exceeded, "the client has max-subscriptions already",
                       Limit::max_subscriptions};
    if (shared && session.state.shared_count() == SessionState::most_shared)
        return Refusal{Reason::quota_exceeded, "the client has 65,535 shared subscriptions"};
    return memory_.objection_if_scarce(session, cost_of_subscription(filter));
}

/// A client can have at most max-subscriptions subscriptions to end.
void Subscriptions::receive(Session& session, const Unsubscribe& request) {
    if (request.filters.size() > most_filters()) {
        counters_.count(Limit::max_subscriptions);
        return session.disconnect(Reason::quota_exceeded,
                                  "more filters in one UNSUBSCRIBE than max-subscriptions");
    }
    const bool is_refused = session.state.owner != 0 && journal_.would_be_refused() &&
                            session.terms.version == Version::v5_0;
    Unsuback unsuback{.packet_id = request.packet_id};
    for (const auto filter : request.filters) {
        const bool existed =
            is_refused ? session.state.subscribed(router_, filter) : unsubscribe(session, filter);
        const Reason reason = is_refused ? Reason::implementation_specific_error : Reason::success;
        unsuback.reasons.push_back(existed ? reason : Reason::no_subscription_existed);
    }
    // A subscription that has ended can't be given back, because it has missed messages. So if the
    // store is in trouble, the answer waits until the store works again.
    PendingReceipt receipt(receipts_);
    if (session.state.owner != 0 && !is_refused) journal_.await_retries(receipt.part());
    answers_.answer(session, unsuback, receipt.close());
}

/// Returns false if the session has the subscription already.
bool Subscriptions::enter(Session& session, const PutSubscription& subscription) {
    const auto options = options_of(subscription.options);
    if (!session.state.subscribe(router_, session, subscription.filter, options,
                                 subscription.identifier))
        return false;
    session.keep(cost_of_subscription(subscription.filter));
    if (shared_filter(subscription.filter))
        shared_.join(session, subscription.filter, options, subscription.identifier);
    return true;
}

void Subscriptions::restore(Session& session, const PutSubscription& subscription) {
    if (!enter(session, subscription) || shared_filter(subscription.filter)) return;
    if (presence_user(subscription.filter) || selects_all_presence(subscription.filter))
        replay_.fall_behind(session,
                            1);  // users that were online when the gateway stopped are offline now
    else if (subscription.owed)
        replay_.restore(session, subscription);
}

/// Returns false if there was no such subscription.
bool Subscriptions::unsubscribe(Session& session, std::string_view filter) {
    if (!session.state.unsubscribe(router_, filter)) return false;
    unstored_.forget(session.state.owner, filter);
    if (session.state.owner != 0)
        journal_.add(DropSubscription{session.state.owner, std::string(filter)});
    session.release(cost_of_subscription(filter));
    if (shared_filter(filter)) shared_.leave(session, filter);
    replay_.cancel(session, filter);
    return true;
}

// -- rules that have changed --

void Subscriptions::judge(Session& session, Millis now) {
    const AccessRules* const rules = authorizations_.rules_of(session);
    if (!rules) return;
    const Who who{session.user.name, session.client};
    std::vector<std::string> refused;
    for (const Subscription& subscription : session.state.subscriptions())
        if (!rules->may_subscribe(who, subscription.filter->text()))
            refused.emplace_back(subscription.filter->text());
    std::ranges::sort(refused);
    for (const auto& filter : refused) unsubscribe(session, filter);

    Exchanges& exchanges = session.state.exchanges();
    // Messages in flight on a connection have reached the client, and their identifiers are in use.
    const auto is_out = [&](bool sent) { return sent && session.link; };
    const auto is_of_refused = [&](const Delivery& delivery) {
        return delivery.share && contains(refused, *delivery.share);
    };
    // At QoS 2, no other client may get a message that this client may have received (MQTT 5.0,
    // 4.8.2).
    const auto goes_back = [&](const Delivery& delivery, bool sent) {
        const bool is_its_own = sent && delivery.qos == QoS::exactly_once;
        return is_of_refused(delivery) && !is_out(sent) && !is_its_own;
    };
    const auto may_read = [&](std::string_view topic) {
        const bool own_inbox = settings_.inbox && inbox_user(topic) == session.user.name;
        const bool own_room = rooms_.audience(topic).is_member(session.user.name);
        return own_inbox || own_room || rules->may_subscribe(who, topic);
    };
    boost::unordered_flat_map<std::string_view, bool, TextHash> verdicts;  // one for each topic
    const auto is_refused = [&](const Delivery& delivery, bool sent) {
        if (!delivery.message || is_out(sent)) return false;
        if (delivery.share) return is_of_refused(delivery);
        const auto [known, is_new] = verdicts.try_emplace(delivery.message->topic);
        if (is_new) known->second = !may_read(known->first);
        return known->second;
    };
    const OwnerId owner = session.state.owner;
    auto returned =
        exchanges.change_outbox([&](Outbox& outbox) { return outbox.take_if(owner, goes_back); });
    shared_.give_back(std::move(returned), now);
    const auto dropped =
        exchanges.change_outbox([&](Outbox& outbox) { return outbox.take_if(owner, is_refused); });
    for (const Delivery& delivery : dropped) packets_.store().drop(delivery);
    counters_.dropped_refused += dropped.size();
    if (refused.empty() && dropped.empty()) return;
    log_limited(spdlog::level::warn,
                "{}: {} subscriptions ended and {} waiting messages dropped: the rules don't allow "
                "them any more",
                session.logged(), refused.size(), dropped.size());
}

void Subscriptions::end_all(Session& session) {
    for (const Subscription& subscription : session.state.subscriptions())
        session.release(cost_of_subscription(subscription.filter->text()));
    session.state.unsubscribe_all(router_);
}

/// The user's connected sessions that are not checked yet, in the order of their ids. Their order
/// in the user's list changes.
std::vector<Session*> Subscriptions::to_judge(User& user) const {
    std::vector<Session*> found;
    for (Device& device : user.devices) {
        auto& session = static_cast<Session&>(device);
        if (device.here && session.id > judged_->client) found.push_back(&session);
    }
    std::ranges::sort(found, {}, &Session::id);
    return found;
}

/// Returns false if it stops because the round's work is used up.
bool Subscriptions::judge_some(User& user, std::uint64_t& work, Millis now) {
    for (Session* const session : to_judge(user)) {
        if (work >= judged_a_turn) return false;
        work +=
            1 + session->state.subscription_count() + session->state.exchanges().outbox().waiting();
        judge(*session, now);
        judged_->client = session->id;
    }
    return true;
}

bool Subscriptions::judge_some(Millis now) {
    if (!judged_) return false;
    std::uint64_t work = 0;
    const auto rest =
        presence_.visit_entries(judged_->users, users_judged_a_turn, [&](PresenceEntry& user) {
            if (!user.is_packed && !judge_some(static_cast<User&>(user), work, now))
                return Visited::unfinished;
            judged_->client = 0;
            return Visited::done;
        });
    if (rest)
        judged_->users = *rest;
    else
        judged_.reset();
    return judged_.has_value();
}

}  // namespace pulsegate
