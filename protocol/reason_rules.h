#pragma once

#include <cstdint>

#include "protocol/packet_set.h"
#include "protocol/packet_type.h"

namespace pulsegate {

/// The packets in which `sender` may use a reason code (MQTT 5.0, table 2-6; for the direction, the
/// table of each packet). Empty for a code that the standard does not have.
PacketSet packets_with(std::uint8_t reason, Sender sender);

}  // namespace pulsegate
