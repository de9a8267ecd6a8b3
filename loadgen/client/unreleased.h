#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "loadgen/time.h"

namespace pulsegate::load {

/// The messages that a client received at QoS 2, and that have no PUBREL yet.
///
/// Some servers never send a PUBREL. So of messages that have waited for long, only the packet
/// identifiers are kept. They need 8 KiB, however many they are.
class Unreleased {
public:
    enum class Arrival : std::uint8_t {
        first,
        again,  ///< the same message, or one that can't be told from it any more
        other,  ///< another message under an identifier in use
    };

    /// `payload` is the hash of the payload. The times only grow.
    Arrival arrive(std::uint16_t packet_id, std::size_t payload, Time now);
    /// False if no message has this identifier.
    bool release(std::uint16_t packet_id);
    void clear();

    bool empty() const { return recent_.empty() && old_count_ == 0; }
    /// The number of messages that arrived before this time.
    std::size_t count(Time before) const;
    std::size_t memory() const;

private:
    struct Message {
        std::uint16_t packet_id;
        std::size_t payload;  ///< its hash
        Time since;
    };
    using Identifiers = std::bitset<std::size_t{UINT16_MAX} + 1>;

    void forget_payloads(Time now);

    std::vector<Message> recent_;       ///< in order of arrival
    std::unique_ptr<Identifiers> old_;  ///< of earlier ones; null: none
    std::uint32_t old_count_ = 0;
    Time newest_old_{};
};

}  // namespace pulsegate::load
