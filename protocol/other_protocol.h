#pragma once

#include <cstdint>

#include "protocol/bytes.h"

namespace pulsegate {

/// What speaks to a port by mistake, or to find out what is there.
enum class OtherProtocol : std::uint8_t { none, http, tls };

/// The protocol that a connection speaks instead of MQTT, by its first bytes: an HTTP request, or a
/// ClientHello of TLS. `none`: it may be MQTT, or anything else.
OtherProtocol other_protocol(Bytes first_bytes);

}  // namespace pulsegate
