#pragma once

#include "protocol/decode.h"
#include "protocol/packet_set.h"
#include "protocol/properties.h"
#include "protocol/reader.h"

namespace pulsegate {

/// Reads a property list with its length prefix and checks all rules: which properties `packet` (or
/// `packets::will_type`) may have, from which side, how often and with which values.
Properties read_properties(Reader& from, PacketType packet, Sender sender);

}  // namespace pulsegate
