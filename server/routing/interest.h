#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "server/base/hash.h"

namespace pulsegate {

/// Which topics a shard may have subscribers for: a counting Bloom filter of the shard's topic
/// filters, readable from every thread. It has false positives, but no false negatives: a filter is
/// added before its SUBACK is sent.
///
/// A filter without wildcards is counted by its text, and a filter with wildcards by its first
/// level. All filters that begin with a wildcard are counted together.
class Interest {
public:
    /// The number of the table that a filter is counted in.
    using Table = std::uint8_t;

    Interest() = default;
    ~Interest();
    Interest(const Interest&) = delete;
    Interest& operator=(const Interest&) = delete;

    /// Call it once for each filter that has or will have subscribers. Any thread may call it,
    /// because a subscription in the shard's mailbox counts already.
    [[nodiscard]] Table add(std::string_view filter);
    /// `table` is what `add` returned.
    void remove(std::string_view filter, Table table);

    /// A topic, hashed once for the Interest of every shard. Its text must outlive it.
    class Topic : public HashedText {
    public:
        using HashedText::HashedText;

    private:
        friend class Interest;
        std::size_t first_level() const;

        mutable std::optional<std::size_t> first_level_{};  ///< hashed when a shard needs it
    };

    bool may_match(const Topic& topic) const;

private:
    /// Counts are raised before the SUBACK is sent, so a client that publishes after a SUBACK finds
    /// the subscriber. A cell counts the few filters that share it. If it ever reaches 255, it
    /// stays there.
    using Cell = std::atomic<std::uint8_t>;
    using LevelCell = std::atomic<std::uint32_t>;

    /// With more filters, further ones go into larger tables, so that at most two of five topics
    /// wake the shard without need. With few filters, little memory is accessed.
    static constexpr std::size_t cells_of[] = {1 << 15, 1 << 18, 1 << 21, 1 << 23, 1 << 25};
    /// The number of filters from which a table takes no more.
    static constexpr std::size_t filters_of[] = {6000, 20'000, 250'000, 1'250'000, SIZE_MAX};
    static constexpr std::size_t tables = std::size(cells_of);
    static constexpr std::size_t level_cells = 1 << 14;

    Table table_for_next() const;

    std::atomic<Cell*> tables_[tables]{};  ///< each allocated when it is needed
    std::atomic<LevelCell*> levels_{};
    std::atomic<std::size_t> filters_{0};  ///< without wildcards
    std::atomic<std::uint32_t> anything_{0};
};

}  // namespace pulsegate
