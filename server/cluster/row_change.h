#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "server/base/hash.h"

namespace pulsegate {

/// Rows are divided into partitions by the users that they belong to. All rows of a partition have
/// one owner among the nodes.
using Partition = std::uint8_t;
inline constexpr Partition partitions = 128;
/// The partition of rows that concern all nodes. The owner of partition 0 writes them.
inline constexpr Partition global_partition = partitions;

inline Partition partition_of(std::string_view name) {
    return static_cast<Partition>(stable_hash(name) % partitions);
}

/// The place of a row: the field of a hash. There is one hash for each table and partition.
struct RowKey {
    Partition partition = 0;
    std::string table{};
    std::string field{};

    bool operator==(const RowKey&) const = default;
    bool operator<(const RowKey& other) const {
        return std::tie(partition, table, field) <
               std::tie(other.partition, other.table, other.field);
    }
};

struct RowChange {
    RowKey key{};
    std::optional<std::string> value{};  ///< nothing: the row is deleted
};

}  // namespace pulsegate
