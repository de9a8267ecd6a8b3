#pragma once

#include <cstdint>

namespace pulsegate {

/// What became of a message for one of its receivers.
enum class Fate : std::uint8_t {
    sent,    ///< to a connected client
    queued,  ///< until its client has room for it, or comes back
    dropped  ///< a limit is reached, or it has expired
};

/// How many receivers a message had.
struct Reach {
    std::uint32_t sent = 0;
    std::uint32_t queued = 0;
    std::uint32_t dropped = 0;

    bool any() const { return sent > 0 || queued > 0 || dropped > 0; }
    void count(Fate fate) {
        ++(fate == Fate::sent ? sent : fate == Fate::queued ? queued : dropped);
    }
    Reach& operator+=(const Reach& other) {
        sent += other.sent;
        queued += other.queued;
        dropped += other.dropped;
        return *this;
    }
};

}  // namespace pulsegate
