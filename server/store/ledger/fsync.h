#pragma once

#include <cstdint>

namespace pulsegate {

/// How much committed data survives a power cut. A crash of the process never loses any of it.
enum class Fsync : std::uint8_t {
    always,       ///< all committed data
    each_second,  ///< all except the last second
    never,        ///< the data that the operating system has written
};

}  // namespace pulsegate
