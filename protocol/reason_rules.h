#pragma once

#include <cstdint>

#include "protocol/decode.h"
#include "protocol/packet_set.h"
#include "protocol/reason.h"

namespace pulsegate {

/// The packets in which `sender` may use a reason code (MQTT 5.0, table 2-6, and the table of each
/// packet for the direction); none for a code that the standard doesn't know.
PacketSet packets_with(std::uint8_t reason, Sender sender);

}  // namespace pulsegate
