#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/cluster/row_change.h"

namespace pulsegate {

/// Returns `{p17}:token`, or the hash of a table.
std::string partition_key(Partition partition, std::string_view name);

/// The reverse. Nothing if it is not such a key.
std::optional<std::pair<Partition, std::string>> parse_partition_key(std::string_view key);

/// The words of a call of pg1.lua that changes rows: FCALL, the function, its keys (tokens first,
/// then hashes) and its arguments. The changes are borrowed; each row may be changed only once.
class RowCall {
public:
    /// `pg1_unit` or `pg1_clear`: token(partition) is the token that Redis must have there.
    RowCall(std::string_view function, std::span<const RowChange> changes,
            const std::function<std::string(Partition)>& token);

    /// `pg1_confirm` of one partition, with rows that Redis may have lost.
    RowCall(Partition partition, std::uint64_t epoch, std::string_view owner,
            std::vector<const RowChange*> changes);

    RowCall(const RowCall&) = delete;
    RowCall& operator=(const RowCall&) = delete;

    std::span<const std::string_view> words() const { return words_; }
    std::size_t bytes() const;

private:
    using Changes = std::vector<const RowChange*>;

    void compose(std::string_view function, const std::vector<std::string>& tokens,
                 std::vector<std::string> first_arguments, Changes changes);
    void add_hash(std::span<const RowChange* const> of_hash,
                  std::vector<std::string_view>& arguments);
    std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

    std::deque<std::string> texts_;  ///< texts that the words point to
    std::vector<std::string_view> words_;
};

}  // namespace pulsegate
