#pragma once

#include <cstdint>
#include <string_view>

#include "server/store/database/database.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

// The columns of a message, which are side by side in each table with messages: checksum, topic,
// properties, payload.

std::uint32_t checksum_of(const Message& message);

/// Reads the columns from `first` on. Null if the bytes are damaged.
MessageRef read_body(const Row& row, int first, Stamp stamp = 0);

/// Logs and counts the damage.
void note_damaged(Database& database, std::string_view table, std::int64_t key);

inline Blob blob(std::string_view bytes) { return {bytes}; }

/// The column `flags` of a message. Its upper half has the sender.
constexpr std::uint64_t flags_column(std::uint32_t flags, std::uint32_t sender) {
    return std::uint64_t{sender} << 32 | flags;
}
constexpr std::uint32_t flags_in(std::uint64_t column) {
    return static_cast<std::uint32_t>(column);
}
constexpr std::uint32_t sender_in(std::uint64_t column) {
    return static_cast<std::uint32_t>(column >> 32);
}

}  // namespace pulsegate
