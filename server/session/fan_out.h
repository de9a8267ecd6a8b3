#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/base/counters.h"
#include "server/routing/retained.h"
#include "server/routing/router.h"
#include "server/session/broker_host.h"
#include "server/session/packet_sender.h"
#include "server/session/presence.h"
#include "server/session/replay.h"
#include "server/session/settings.h"
#include "server/session/shard_place.h"
#include "server/session/shared_subscriptions.h"

namespace pulsegate {

/// Delivers messages: it routes each to the shards that need it, and on each of them fans it out to
/// the subscribed sessions, to the devices of the user whose inbox it is for, and to one member of
/// each shared subscription. It owns nothing; it belongs to the shard's thread.
class FanOut {
public:
    FanOut(const BrokerSettings& settings, ShardPlace place, Router& router, Retained& retained,
           Presence& presence, SharedSubscriptions& shared, Replay& replay, PacketSender& sender,
           Counters& counters, BrokerHost& host);

    /// Retains a client's message or will, if it has the retain flag, and routes it.
    void publish(Message message, const Session* publisher, Millis now);

    /// Sends the message to all receivers on all shards, but not to subscriptions of `publisher`
    /// with no-local. Null: the publisher is not on this shard.
    void route(const MessageRef& message, const Session* publisher, Millis now);

    /// A message that another shard has routed to this one.
    void receive(const MessageRef& message, Millis now);

    /// Devices visited for messages to inboxes since the start: the measure of a turn's work.
    std::uint64_t work() const { return devices_; }

private:
    void judge_retained(Message& message);
    void fan_out(const MessageRef& message, const Session* publisher,
                 const std::optional<std::string>& owner, Millis now);
    void fan_out_to_devices(User& user, const MessageRef& message, const Session* except,
                            PublishEncoder& encoder, Millis now);
    std::optional<std::string> inbox_owner(std::string_view topic) const;

    const BrokerSettings& settings_;
    const ShardPlace place_;
    Router& router_;
    Retained& retained_;
    Presence& presence_;
    SharedSubscriptions& shared_;
    Replay& replay_;
    PacketSender& sender_;
    Counters& counters_;
    BrokerHost& host_;
    std::uint64_t devices_ = 0;
};

}  // namespace pulsegate
