#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

// The columns with a format of our own. Numbers are variable byte integers of up to ten bytes,
// seven bits in each, the lowest first.

/// CRC-32C of all texts, one after the other.
std::uint32_t checksum(std::initializer_list<std::string_view> texts);

/// For each receiver, by ascending owner: the difference to the last owner's number; a byte with
/// QoS, the retain flag, and whether identifiers follow; their count; the identifiers. A checksum
/// of this and of `stamp` comes first, so that a damaged row does not reach a wrong receiver.
std::string encode_receivers(Stamp stamp, const std::vector<Receiver>& receivers);

/// The receivers by ascending owner; nothing if the bytes are damaged.
std::optional<std::vector<Receiver>> decode_receivers(Stamp stamp, std::string_view bytes);

/// Both lists, by ascending owner. If an owner is in both, the entry of the second list is used,
/// but with a share from either list, so that the group does not lose the message.
std::vector<Receiver> merge_receivers(std::vector<Receiver> stored, std::vector<Receiver> added);

/// Ascending stamps, each as the difference to the previous one.
std::string encode_stamps(const std::vector<Stamp>& stamps);
std::vector<Stamp> decode_stamps(std::string_view bytes);

/// Early stamps in the column `beyond` of a cursor have this bit; see CursorRow.
inline constexpr Stamp early_bit = Stamp{1} << 63;
/// Removes early stamps and returns them, without the bit.
std::vector<Stamp> take_early(std::vector<Stamp>& stamps);
/// Returns `beyond` without early stamps. Call it if a program that does not know them has changed
/// the store. The owner then gets some messages again.
std::string drop_early_stamps(std::string_view beyond);

}  // namespace pulsegate
