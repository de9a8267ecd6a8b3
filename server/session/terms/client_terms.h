#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/packet.h"

namespace pulsegate {

/// The limits and options of one connection, as stated in its CONNECT.
struct ClientTerms {
    std::uint32_t max_packet_size = 0;  ///< bytes that the client accepts; 0: no limit
    std::uint16_t receive_maximum = 0;  ///< QoS 1 and 2 messages in flight to it at once
    Version version = Version::v3_1_1;
    // Request Problem Information (5.0, 3.1.2.11.7): `wants_reasons` if it is stated as 1,
    // `takes_reasons` unless it is stated as 0.
    bool wants_reasons : 1 = false;
    bool takes_reasons : 1 = false;

    bool takes(std::size_t packet_size) const {
        return max_packet_size == 0 || packet_size <= max_packet_size;
    }
};

}  // namespace pulsegate
