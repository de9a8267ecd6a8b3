#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/packet.h"
#include "server/message.h"

namespace pulsegate {

/// One message as PUBLISH packets. Receivers of the same protocol version and QoS share an
/// encoding; only the packet identifier and the retain flag are written anew for each.
class Publication {
public:
    explicit Publication(const Message& message) : message_(message) {}

    /// The packet for one receiver, valid until the next call. `packet_id` counts above QoS 0.
    std::string_view packet(Version version, QoS qos, bool retain, std::uint16_t packet_id,
                            std::span<const std::uint32_t> identifiers);

private:
    void encode_into(Buffer& out, Version version, QoS qos,
                     std::span<const std::uint32_t> identifiers) const;

    const Message& message_;
    std::array<Buffer, 6> shared_;  ///< by version and QoS
    Buffer single_;                 ///< with subscription identifiers, which are the receiver's own
};

}  // namespace pulsegate
