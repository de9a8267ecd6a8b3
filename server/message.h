#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/packet.h"

namespace pulsegate {

/// A published message on its way to whoever subscribed. It never changes once it is shared, so any
/// number of shards may hold it.
struct Message {
    std::string topic;
    std::string payload;
    std::string properties;  ///< those that travel with the message, encoded (MQTT 5.0, 3.3.2.3)
    QoS qos = QoS::at_most_once;
    bool retain = false;
    std::uint64_t presence_version =
        0;  ///< of the user whose presence it tells; 0: another message
};

/// Topics that no client publishes to: presence is the gateway's word, and `$` topics are the
/// server's own (MQTT 5.0, 4.7.2).
bool reserved_topic(std::string_view topic);

/// The properties that travel with a message to its receivers, encoded (MQTT 5.0, 3.3.2.3).
std::string travelling(const Properties& properties);

using MessageRef = std::shared_ptr<const Message>;

}  // namespace pulsegate
