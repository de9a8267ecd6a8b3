#pragma once

#include <cstdint>
#include <memory>
#include <string>

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
};

using MessageRef = std::shared_ptr<const Message>;

}  // namespace pulsegate
