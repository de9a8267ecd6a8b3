#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "server/message.h"

namespace pulsegate {

/// A will (MQTT 5.0, 3.1.2.5).
struct StoredWill {
    Message message;  ///< its Message Expiry Interval begins when it is published
    std::optional<std::uint32_t> message_expiry = {};  ///< that interval, in seconds
    std::uint32_t delay = 0;                           ///< Will Delay Interval, in seconds
};

/// The will of a CONNECT; null if it has none.
std::unique_ptr<StoredWill> stored_will(const Connect& connect, bool retain_available);

/// The will as a message that is published `now`.
Message take_message(StoredWill& will, Millis now);

}  // namespace pulsegate
