#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "server/clock.h"

namespace pulsegate {

/// A published message on its way to whoever subscribed. It never changes once it is shared, so any
/// number of shards may hold it.
struct Message {
    std::string topic;
    std::string payload;
    std::string properties;  ///< those that travel with it but its expiry, encoded (5.0, 3.3.2.3)
    QoS qos = QoS::at_most_once;
    bool retain = false;
    Millis expires = 0;           ///< when nobody wants it any more; 0: never
    std::uint64_t stamp = 0;      ///< of a retained message: the later one counts, on every shard
    std::uint64_t publisher = 0;  ///< of a retained message: the client's fingerprint
    std::uint64_t presence_version =
        0;  ///< of the user whose presence it tells; 0: another message

    bool expired(Millis now) const { return expires != 0 && now > expires; }

    /// What it costs in memory while it waits for somebody, about.
    std::size_t cost() const {
        constexpr std::size_t bookkeeping = 256;
        return bookkeeping + topic.size() + payload.size() + properties.size();
    }
};

using MessageRef = std::shared_ptr<const Message>;

/// One copy of a message for one receiver: the message, and what the receiver's subscriptions make
/// of it.
struct Delivery {
    MessageRef message;
    QoS qos = QoS::at_most_once;
    bool retain = false;
    std::vector<std::uint32_t> identifiers{};    ///< of the subscriptions (MQTT 5.0, 3.3.2.3.8)
    std::shared_ptr<const std::string> share{};  ///< `$share/group/filter` that it came by, or null

    std::size_t cost() const {
        return message->cost() + identifiers.size() * sizeof identifiers[0];
    }
};

/// A message with the properties of its PUBLISH or will that travel with it. The time that it has
/// to live, if it states one, begins `now`.
Message make_message(std::string_view topic, std::string_view payload, const Properties& properties,
                     QoS qos, bool retain, Millis now);

/// Larger than any before it, in the whole process.
std::uint64_t next_stamp();

/// Topics that no client publishes to: presence is the gateway's word, and `$` topics are the
/// server's own (MQTT 5.0, 4.7.2).
bool reserved_topic(std::string_view topic);

}  // namespace pulsegate
