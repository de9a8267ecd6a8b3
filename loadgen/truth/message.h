#pragma once

#include <cstdint>
#include <optional>

#include "loadgen/time.h"
#include "protocol/bytes.h"

namespace pulsegate::load {

/// The head of each message's payload identifies the message. The rest of the payload and a
/// checksum follow from it, so that changed messages are noticed.
struct Message {
    static constexpr std::size_t size = 32;

    std::uint64_t run = 0;
    Time planned{};  ///< of the run's common clock
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;  ///< a client, or a room
    std::uint16_t slot = 0;      ///< index of the sender's contact
    std::uint32_t sequence = 0;  ///< counts from 0 in each flow: sender and slot

    bool operator==(const Message&) const = default;
};

/// Overwrites `out` with a payload of `size` bytes, at least `Message::size`.
void write_message(const Message& message, std::size_t size, Buffer& out);

/// Nothing if it is not the head of a message, or if it was changed.
[[nodiscard]] std::optional<Message> read_message(Bytes payload);

/// Is everything after the head unchanged, too? This does not notice a message that was cut or
/// extended, because that needs the size.
[[nodiscard]] bool is_whole(const Message& message, Bytes payload);

}  // namespace pulsegate::load
