#pragma once

#include <boost/json/object.hpp>

#include "protocol/bytes.h"
#include "protocol/decode.h"
#include "protocol/packet.h"

namespace pulsegate {

/// A trace's description of a packet: its type, size, packet identifier, QoS, topic, filters and
/// reason; never a payload or a password.
boost::json::object packet_summary(Bytes packet, Version version, Sender sender);

}  // namespace pulsegate
