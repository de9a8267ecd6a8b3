#pragma once

#include <cstdint>

#include "protocol/bytes.h"

namespace pulsegate {

/// Protocols that clients of other kinds, or scanners, speak to an MQTT port.
enum class OtherProtocol : std::uint8_t { none, http, tls };

/// The protocol that a connection speaks instead of MQTT, by its first bytes: an HTTP request, or a
/// ClientHello of TLS. `none`: it may be MQTT, or anything else.
OtherProtocol other_protocol(Bytes first_bytes);

}  // namespace pulsegate
