#include "protocol/packet_type.h"

#include <array>
#include <cstddef>

namespace pulsegate {

std::string_view name(PacketType type) {
    static constexpr std::array<std::string_view, 16> names{
        "reserved", "CONNECT",  "CONNACK",    "PUBLISH", "PUBACK",      "PUBREC",
        "PUBREL",   "PUBCOMP",  "SUBSCRIBE",  "SUBACK",  "UNSUBSCRIBE", "UNSUBACK",
        "PINGREQ",  "PINGRESP", "DISCONNECT", "AUTH",
    };
    static_assert(names[static_cast<std::size_t>(PacketType::auth)] == "AUTH");
    return names[static_cast<std::size_t>(type) % names.size()];
}

}  // namespace pulsegate
