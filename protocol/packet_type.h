#pragma once

#include <cstdint>
#include <string_view>

namespace pulsegate {

/// Control packet types (MQTT 5.0, table 2-1).
enum class PacketType : std::uint8_t {
    connect = 1,
    connack,
    publish,
    puback,
    pubrec,
    pubrel,
    pubcomp,
    subscribe,
    suback,
    unsubscribe,
    unsuback,
    pingreq,
    pingresp,
    disconnect,
    auth
};

/// The standard's name in capitals ("PINGREQ").
std::string_view name(PacketType type);

/// The sender of a packet. Some packets, properties and reason codes are legal in one direction
/// only.
enum class Sender : std::uint8_t { client, server };

}  // namespace pulsegate
