#pragma once

#include <cstdint>
#include <optional>

#include "loadgen/time.h"
#include "protocol/bytes.h"

namespace pulsegate::load {

/// The head of each message's payload: when it was planned, for which client, and its number. The
/// rest of the payload is padding.
struct Stamp {
    static constexpr std::size_t size = 32;

    std::uint64_t run = 0;
    std::uint64_t sequence = 0;
    Time planned{};
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;
};

/// Overwrites `out` with a payload of `size` bytes, at least `Stamp::size`.
void write(const Stamp& stamp, std::size_t size, Buffer& out);

/// Nothing if the payload is not exactly one that `write` wrote.
[[nodiscard]] std::optional<Stamp> read_stamp(Bytes payload);

}  // namespace pulsegate::load
