#include "server/session/life/passed_parts.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "protocol/topic.h"
#include "server/auth/access.h"
#include "server/session/durable/journal.h"
#include "server/session/terms/option_bits.h"

namespace pulsegate {

namespace {

constexpr std::size_t most_adopted_alias_bytes = 1024 * 1024;

bool is_qos(std::uint8_t qos) { return qos <= static_cast<std::uint8_t>(QoS::exactly_once); }

bool is_sound(const DeliveryRecord& record) {
    return is_qos(record.qos) && record.qos > 0 && (!record.message || is_qos(record.message->qos));
}

AuthorizationRecord record_of(const std::shared_ptr<const AccessRules>& rules,
                              std::optional<std::int64_t> expiry,
                              std::optional<std::int64_t> token_issued) {
    AuthorizationRecord record{.expiry = expiry, .token_issued = token_issued};
    record.has_rules = rules != nullptr;
    if (rules) record.rules = rules->lines();
    return record;
}

}  // namespace

// -- messages --

MessageRecord message_record(const Message& message, Millis now) {
    return {.topic = message.topic,
            .payload = message.payload,
            .properties = message.properties,
            .qos = static_cast<std::uint8_t>(message.qos),
            .retain = message.retain,
            .expires = as_wall_time(message.expires, now),
            .stamp = message.stamp,
            .retained = message.retained,
            .publisher = message.publisher,
            .sender = message.sender,
            .presence_version = message.presence_version};
}

MessageRef message_of(const MessageRecord& record, Millis now) {
    return share({.topic = record.topic,
                  .payload = record.payload,
                  .properties = record.properties,
                  .qos = static_cast<QoS>(record.qos),
                  .retain = record.retain,
                  .expires = as_monotonic_time(record.expires, now),
                  .stamp = record.stamp,
                  .retained = record.retained,
                  .publisher = record.publisher,
                  .sender = record.sender,
                  .presence_version = record.presence_version});
}

DeliveryRecord delivery_record(const Delivery& delivery, Millis now, bool whole) {
    DeliveryRecord record{.qos = static_cast<std::uint8_t>(delivery.qos),
                          .retain = delivery.retain,
                          .is_from_inbox = delivery.from_inbox,
                          .owner = delivery.owner,
                          .identifiers = delivery.identifiers};
    if (delivery.share) record.share = *delivery.share;
    if (delivery.message) record.stamp = delivery.message->stamp;
    if (delivery.message && whole) record.message = message_record(*delivery.message, now);
    return record;
}

Delivery delivery_of(const DeliveryRecord& record, Millis now) {
    Delivery delivery{.message = record.message ? message_of(*record.message, now) : MessageRef(),
                      .qos = static_cast<QoS>(record.qos),
                      .retain = record.retain,
                      .from_inbox = record.is_from_inbox,
                      .owner = record.owner,
                      .identifiers = record.identifiers};
    if (!record.share.empty()) delivery.share = std::make_shared<const std::string>(record.share);
    return delivery;
}

/// Describes the part of the queue that the store does not have. Unsent messages from the inbox are
/// left out: they are in the inbox again when the next process has read the store.
void describe_queue(const Outbox& outbox, SessionRecord& record, Millis now) {
    for (const QueuedMessage& each : outbox.queue()) {
        if (record.is_stored && each.perhaps_sent)
            record.queue.push_back({.qos = 1, .perhaps_sent = true, .stamp = each.stamp});
        const bool travels = each.has_body() && !each.is_from_inbox() &&
                             (!record.is_stored || each.owner_in(1) == 0);
        if (!travels) continue;
        record.queue.push_back(delivery_record(each.delivery(0), now, true));
        record.queue.back().perhaps_sent = each.perhaps_sent;
    }
}

// -- results of a login --

std::optional<AuthorizationRecord> authorization_record(const Authorization* authorization) {
    if (!authorization) return std::nullopt;
    return record_of(authorization->rules, authorization->expiry, authorization->token_issued);
}

std::optional<AuthorizationRecord> authorization_record(const AuthResult& result) {
    if (!result.rules && !result.expiry && !result.token_issued) return std::nullopt;
    return record_of(result.rules, result.expiry, result.token_issued);
}

std::optional<AuthResult> auth_result(const std::optional<AuthorizationRecord>& record) {
    AuthResult result;
    if (!record) return result;
    result.expiry = record->expiry;
    result.token_issued = record->token_issued;
    if (!record->has_rules) return result;
    auto rules = std::make_shared<AccessRules>();
    for (const std::string& each : record->rules)
        if (!rules->add(each).empty()) return std::nullopt;
    result.rules = std::move(rules);
    return result;
}

WillRecord will_record(const StoredWill& will) {
    return {.message = message_record(will.message, 0),
            .message_expiry = will.message_expiry,
            .delay = will.delay,
            .authorization = record_of(will.rules, will.authorized_until, will.token_issued)};
}

std::unique_ptr<StoredWill> stored_will(const std::optional<WillRecord>& record) {
    if (!record || !is_qos(record->message.qos)) return nullptr;
    const auto authorization = auth_result(record->authorization);
    if (!authorization) return nullptr;
    auto will = std::make_unique<StoredWill>();
    will->message = *message_of(record->message, 0);
    will->message_expiry = record->message_expiry;
    will->delay = record->delay;
    will->rules = authorization->rules;
    will->authorized_until = authorization->expiry;
    will->token_issued = authorization->token_issued;
    return will;
}

// -- topic aliases --

void describe_aliases(const Session& session, SessionRecord& record) {
    if (!session.aliases) return;
    record.has_aliases = true;
    record.most_aliases = session.aliases->outgoing_maximum();
    std::uint16_t alias = 0;
    session.aliases->for_each([&](std::string_view topic) {
        ++alias;
        if (!topic.empty()) record.aliases_in.push_back({alias, std::string(topic)});
    });
    session.aliases->for_each_outgoing([&](const std::string& topic, std::uint16_t given) {
        record.aliases_out.push_back({given, topic});
    });
}

void adopt_aliases(Session& session, const SessionRecord& record) {
    session.forget_aliases();
    if (!record.has_aliases) return;
    session.aliases = std::make_unique<TopicAliases>(record.most_aliases);
    for (const AliasRecord& each : record.aliases_in) session.set_alias(each.alias, each.topic);
    // An earlier version did not limit the memory of these. If they are forgotten, the gateway
    // introduces them again.
    std::size_t bytes = 0;
    for (const AliasRecord& each : record.aliases_out)
        bytes += TopicAliases::bytes_of_outgoing(each.topic);
    if (bytes > most_adopted_alias_bytes) return;
    for (const AliasRecord& each : record.aliases_out)
        session.introduce_alias(each.topic, each.alias);
}

// -- the rest --

ReplayRecord replay_record(const ReplayState& replay, unsigned shards) {
    ReplayRecord record{.retained_done = replay.retained_done,
                        .after = replay.after,
                        .shard = replay.shard,
                        .shards = shards,
                        .position = replay.position.version};
    for (const ReplayState::Request& each : replay.requests)
        record.requests.push_back({.filter = each.filter,
                                   .options = option_bits(each.options),
                                   .identifier = each.identifier,
                                   .since = each.since.version,
                                   .is_owed = each.is_owed});
    return record;
}

/// The next process may order users of one version differently, so the client may be sent the last
/// user's state again.
std::unique_ptr<ReplayState> replay_state(const std::optional<ReplayRecord>& record) {
    if (!record || record->requests.empty()) return nullptr;
    auto replay = std::make_unique<ReplayState>();
    for (const ReplayRecord::Request& each : record->requests)
        replay->requests.push_back({.filter = each.filter,
                                    .options = options_of(each.options),
                                    .identifier = each.identifier,
                                    .since = {.version = each.since},
                                    .is_owed = each.is_owed});
    replay->retained_done = record->retained_done;
    replay->after = record->after;
    replay->shard = record->shard;
    replay->position = {.version = record->position};
    return replay;
}

ClientTerms terms_of(const SessionRecord& record) {
    return {.max_packet_size = record.max_packet_size,
            .receive_maximum = record.receive_maximum,
            .version = static_cast<Version>(record.version),
            .wants_reasons = record.wants_reasons,
            .takes_reasons = record.takes_reasons};
}

bool is_sound(const SessionRecord& record) {
    const auto version = static_cast<Version>(record.version);
    const bool has_version =
        version == Version::v3_1 || version == Version::v3_1_1 || version == Version::v5_0;
    const auto has_id = [](const DeliveryRecord& each) { return each.packet_id != 0; };
    const auto is_filter = [](const SubscriptionRecord& each) {
        return valid_topic_filter(each.filter) && (each.options & 3) <= 2;
    };
    const auto is_delivery = [](const DeliveryRecord& each) { return is_sound(each); };
    const auto is_alias = [](const AliasRecord& each) { return each.alias != 0; };
    return has_version && !record.user.empty() && !record.client.empty() &&
           std::ranges::all_of(record.in_flight, has_id) &&
           std::ranges::all_of(record.in_flight, is_delivery) &&
           std::ranges::all_of(record.queue, is_delivery) &&
           std::ranges::all_of(record.subscriptions, is_filter) &&
           std::ranges::all_of(record.aliases_in, is_alias);
}

}  // namespace pulsegate
