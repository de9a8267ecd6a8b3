#pragma once

#include <cstdint>

#include "protocol/packet.h"

namespace pulsegate {

/// As in SUBSCRIBE (MQTT 5.0, 3.8.3.1).
inline std::uint8_t option_bits(const SubscribeOptions& options) {
    return static_cast<std::uint8_t>(static_cast<unsigned>(options.qos) |
                                     static_cast<unsigned>(options.no_local) << 2 |
                                     static_cast<unsigned>(options.retain_as_published) << 3 |
                                     static_cast<unsigned>(options.retain_handling) << 4);
}

inline SubscribeOptions options_of(std::uint8_t bits) {
    SubscribeOptions options;
    options.qos = static_cast<QoS>(bits & 3);
    options.no_local = (bits & 4) != 0;
    options.retain_as_published = (bits & 8) != 0;
    options.retain_handling = static_cast<std::uint8_t>(bits >> 4 & 3);
    return options;
}

}  // namespace pulsegate
