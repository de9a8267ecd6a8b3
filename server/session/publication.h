#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/packet.h"
#include "server/message.h"

namespace pulsegate {

/// What differs between the packets that carry one message to its receivers.
struct Envelope {
    Version version = Version::v3_1_1;
    QoS qos = QoS::at_most_once;
    bool dup = false;
    bool retain = false;
    std::uint16_t packet_id = 0;  ///< counts above QoS 0
    std::span<const std::uint32_t> identifiers{};
    std::uint16_t alias = 0;   ///< of the topic on this connection; 0: none
    bool alias_known = false;  ///< the client has heard the alias, and the topic is left out
};

/// One message as PUBLISH packets. Receivers of the same protocol version, QoS and use of aliases
/// share an encoding; flags, packet identifier and alias are written anew for each.
class Publication {
public:
    /// At the time `now`, which decides what is left of the message's time to live.
    Publication(const Message& message, Millis now) : message_(message), now_(now) {}

    /// The packet for one receiver, valid until the next call.
    std::string_view packet(const Envelope& envelope);

private:
    void encode_into(Buffer& out, const Envelope& envelope) const;

    static constexpr std::size_t aliasings = 3;  ///< no alias, one that is told, one that is known
    static constexpr std::size_t qualities = 3;

    const Message& message_;
    const Millis now_;
    Buffer v3_1_1_[qualities];
    Buffer v5_0_[qualities][aliasings];
    Buffer single_;  ///< with subscription identifiers, which are the receiver's own
};

}  // namespace pulsegate
