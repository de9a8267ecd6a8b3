#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

// The columns whose bytes are ours to define. Numbers are variable byte integers of up to ten
// bytes, seven bits in each, the lowest first.

/// CRC-32C of all texts, one after the other.
std::uint32_t checksum(std::initializer_list<std::string_view> texts);

/// For each receiver, by ascending owner: how much larger the owner's number is than the last one,
/// a byte with QoS, retain flag and whether identifiers follow, their count, they. In front of all
/// a checksum of it and of `stamp`, so that a damaged row does not reach someone else.
std::string encode_receivers(Stamp stamp, std::vector<Receiver> receivers);

/// Nothing if the bytes are damaged. By ascending owner.
std::optional<std::vector<Receiver>> decode_receivers(Stamp stamp, std::string_view bytes);

/// Both lists, by ascending owner; of an owner in both the second one's is taken, but a share of
/// either: the group is not to lose the message.
std::vector<Receiver> merge_receivers(std::vector<Receiver> stored, std::vector<Receiver> added);

/// Ascending stamps, each as the difference to the one before.
std::string encode_stamps(const std::vector<Stamp>& stamps);
std::vector<Stamp> decode_stamps(std::string_view bytes);

}  // namespace pulsegate
