#pragma once

#include <cstdint>
#include <optional>

#include "loadgen/time.h"
#include "protocol/bytes.h"

namespace pulsegate::load {

/// The head of each message's payload: what it is, and where it belongs. The rest of the payload
/// follows from it, as does a checksum in it, so that a message that was changed on its way is
/// noticed.
struct Message {
    static constexpr std::size_t size = 32;

    std::uint64_t run = 0;
    Time planned{};  ///< of the run's common clock
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;  ///< a client, or a room
    std::uint16_t slot = 0;      ///< which of its sender's contacts
    std::uint32_t sequence = 0;  ///< counts from 0 in each flow: sender and slot

    bool operator==(const Message&) const = default;
};

/// Overwrites `out` with a payload of `size` bytes, at least `Message::size`.
void write_message(const Message& message, std::size_t size, Buffer& out);

/// Nothing if that is not the head of a message, or a head that was changed.
[[nodiscard]] std::optional<Message> read_message(Bytes payload);

/// Is everything behind the head, too, as `write_message` wrote it? A message that was cut short or
/// extended is not noticed here: its size has to be known.
[[nodiscard]] bool is_whole(const Message& message, Bytes payload);

}  // namespace pulsegate::load
