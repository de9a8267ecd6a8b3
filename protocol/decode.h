#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "protocol/bytes.h"
#include "protocol/decode_error.h"
#include "protocol/packet.h"
#include "protocol/packet_type.h"

namespace pulsegate {

/// What is at the front of a byte stream.
struct [[nodiscard]] Frame {
    enum class Status : std::uint8_t { complete, incomplete, bad };
    Status status;
    std::size_t size = 0;  ///< complete: bytes of the whole packet; incomplete: bytes known to be
                           ///< needed (0: not yet known)
    DecodeError error{};  ///< bad: malformed length, reserved type or flags, or larger than allowed
};

/// Finds the first packet of `in` from its fixed header alone (MQTT 5.0, section 2.1), so that a
/// packet that is too large or has a bad first byte is refused before its body arrives.
/// `max_packet_size` counts the whole packet, including the header. `version` is the version of the
/// connection's CONNECT.
Frame next_frame(Bytes in, std::size_t max_packet_size, Version version = Version::v5_0);

using Decoded = std::variant<Packet, DecodeError>;

/// Decodes one whole packet, strictly. `version` is the version of the connection's CONNECT; it is
/// ignored for a CONNECT itself. The result views `frame`.
[[nodiscard]] Decoded decode(Bytes frame, Version version, Sender sender);

/// The facts that are needed to answer a CONNECT that could not be decoded.
struct ConnectClaims {
    Version version{};                  ///< 5.0 if the CONNECT claims 5.0 or a later version
    std::uint32_t max_packet_size = 0;  ///< 0: the CONNECT states none, or is malformed before that
};

/// Returns nothing unless `frame` is a CONNECT of MQTT up to its protocol level, because the sender
/// may not understand a CONNACK. The end of the packet may be missing.
std::optional<ConnectClaims> claims_of_connect(Bytes frame);

}  // namespace pulsegate
