#pragma once

#include <cstdint>

namespace pulsegate {

/// How much of what is committed survives a power cut. A crash of the process loses nothing of it
/// in any case.
enum class Fsync : std::uint8_t {
    always,       ///< all of it
    each_second,  ///< all but the last second
    never,        ///< whatever the system has written by then
};

}  // namespace pulsegate
