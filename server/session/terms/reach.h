#pragma once

#include <cstdint>

namespace pulsegate {

/// The result of a message for one of its receivers.
enum class DeliveryOutcome : std::uint8_t {
    sent,     ///< to a connected client
    queued,   ///< it waits until its client has room for it, or comes back
    dropped,  ///< it has expired, or is too large for the client
    no_room,  ///< a limit is reached
    refused   ///< the store refuses it, and so the whole message is refused
};

/// The receivers that a message had, by result.
struct Reach {
    std::uint32_t sent = 0;
    std::uint32_t queued = 0;
    std::uint32_t dropped = 0;
    std::uint32_t no_room = 0;  ///< how many of the dropped ones had no room

    /// Does no receiver get the message because of a limit? Then its publisher must be told.
    bool is_refused() const { return sent == 0 && queued == 0 && no_room > 0; }
    bool any() const { return sent > 0 || queued > 0 || dropped > 0; }
    void count(DeliveryOutcome outcome) {
        ++(outcome == DeliveryOutcome::sent     ? sent
           : outcome == DeliveryOutcome::queued ? queued
                                                : dropped);
        no_room += outcome == DeliveryOutcome::no_room || outcome == DeliveryOutcome::refused;
    }
    Reach& operator+=(const Reach& other) {
        sent += other.sent;
        queued += other.queued;
        dropped += other.dropped;
        no_room += other.no_room;
        return *this;
    }
};

}  // namespace pulsegate
