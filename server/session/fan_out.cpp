#include "server/session/fan_out.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/topics.h"

namespace pulsegate {

FanOut::FanOut(const BrokerSettings& settings, ShardPlace place, Router& router, Retained& retained,
               Presence& presence, SharedSubscriptions& shared, Replay& replay,
               PacketSender& sender, Counters& counters, BrokerHost& host)
    : settings_(settings),
      place_(place),
      router_(router),
      retained_(retained),
      presence_(presence),
      shared_(shared),
      replay_(replay),
      sender_(sender),
      counters_(counters),
      host_(host) {}

void FanOut::publish(Message message, const Session* publisher, Millis now) {
    const bool retained = message.retain && settings_.retain_available;
    if (message.retain && !retained)
        log_limited(spdlog::level::warn,
                    "message to {} delivered, but not retained: retain-available is off",
                    quoted(message.topic));
    if (retained) {
        message.stamp = next_stamp();
        message.publisher = publisher ? publisher->fingerprint() : 0;
    }
    if (publisher) message.sender = keyed_hash(publisher->user.name);
    if (retained) judge_retained(message);
    const auto shared = share(std::move(message));
    if (retained) retained_.keep(shared, now);
    route(shared, publisher, now);
}

/// Whether there is room to retain the message.
void FanOut::judge_retained(Message& message) {
    const bool grows = !message.payload.empty() && !retained_.has(message.topic);
    const bool scarce = grows && host_.memory() != MemoryState::plenty;
    message.not_kept = scarce || !retained_.fits(message);
    if (!message.not_kept) return;
    ++counters_.dropped_not_retained;
    log_limited(spdlog::level::warn, "message to {} delivered, but not retained: {} is reached",
                quoted(message.topic),
                scarce
                    ? "memory-budget"
                    : "max-retained-messages, max-retained-bytes, or what a user may have of it");
}

void FanOut::route(const MessageRef& message, const Session* publisher, Millis now) {
    const auto owner = inbox_owner(message->topic);
    fan_out(message, publisher, owner, now);
    std::optional<unsigned> inbox;
    if (owner) inbox = place_.home_of(*owner);
    host_.forward(message, inbox);
}

void FanOut::receive(const MessageRef& message, Millis now) {
    if (message->stamp != 0) retained_.keep(message, now);
    fan_out(message, nullptr, inbox_owner(message->topic), now);
}

void FanOut::fan_out(const MessageRef& message, const Session* publisher,
                     const std::optional<std::string>& owner, Millis now) {
    PublishEncoder encoder(*message, now);
    Delivery delivery{.message = message};
    User* const user = owner ? presence_.find(*owner) : nullptr;
    const bool declined = router_.match(message->topic, publisher, [&](const Match& match) {
        auto& session = static_cast<Session&>(*match.subscriber);
        if (message->presence_version != 0 && !sender_.keeps_up(session))
            return replay_.fall_behind(session, message->presence_version);
        const bool own_inbox = user == &session.user;
        if (own_inbox) session.served = true;
        delivery.qos = std::min(message->qos, own_inbox ? settings_.max_qos : match.qos);
        delivery.retain = message->retain && match.retain_as_published;
        delivery.identifiers = match.identifiers;
        sender_.enqueue(session, delivery, encoder, now);
    });
    if (user) fan_out_to_devices(*user, message, declined ? publisher : nullptr, encoder, now);
    shared_.fan_out(message, now);
}

/// The user whose inbox the topic is; nothing for other topics, or if `inbox` is off.
std::optional<std::string> FanOut::inbox_owner(std::string_view topic) const {
    return settings_.inbox ? inbox_user(topic) : std::nullopt;
}

/// Sends to the user's sessions that have not got the message by a subscription of their own.
void FanOut::fan_out_to_devices(User& user, const MessageRef& message, const Session* except,
                                PublishEncoder& encoder, Millis now) {
    const Delivery delivery{.message = message, .qos = std::min(message->qos, settings_.max_qos)};
    for (Device& device : user.devices) {
        ++devices_;
        auto& session = static_cast<Session&>(device);
        if (!std::exchange(session.served, false) && &session != except)
            sender_.enqueue(session, delivery, encoder, now);
    }
}

}  // namespace pulsegate
