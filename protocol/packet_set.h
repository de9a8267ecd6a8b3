#pragma once

#include <cstdint>

#include "protocol/packet_type.h"

namespace pulsegate {

/// A set of packet types. The standard's tables say which packets may have a property or a reason
/// code.
using PacketSet = std::uint16_t;

constexpr PacketSet only(PacketType type) {
    return static_cast<PacketSet>(1u << static_cast<unsigned>(type));
}

constexpr bool contains(PacketSet set, PacketType type) { return (set & only(type)) != 0; }

/// The sets by name, for tables that read like the standard's: `connect | connack`.
namespace packets {

/// The will has properties of its own; it takes the place of the forbidden packet type 0.
inline constexpr PacketType will_type{0};

inline constexpr PacketSet nowhere = 0;
inline constexpr PacketSet will = only(will_type);
inline constexpr PacketSet connect = only(PacketType::connect);
inline constexpr PacketSet connack = only(PacketType::connack);
inline constexpr PacketSet publish = only(PacketType::publish);
inline constexpr PacketSet puback = only(PacketType::puback);
inline constexpr PacketSet pubrec = only(PacketType::pubrec);
inline constexpr PacketSet pubrel = only(PacketType::pubrel);
inline constexpr PacketSet pubcomp = only(PacketType::pubcomp);
inline constexpr PacketSet subscribe = only(PacketType::subscribe);
inline constexpr PacketSet suback = only(PacketType::suback);
inline constexpr PacketSet unsubscribe = only(PacketType::unsubscribe);
inline constexpr PacketSet unsuback = only(PacketType::unsuback);
inline constexpr PacketSet disconnect = only(PacketType::disconnect);
inline constexpr PacketSet auth = only(PacketType::auth);
inline constexpr PacketSet acknowledgements = puback | pubrec | pubrel | pubcomp;

}  // namespace packets

}  // namespace pulsegate
