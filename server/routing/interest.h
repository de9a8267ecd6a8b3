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
/// A filter without wildcards is counted by its text, one with wildcards by its first level, and
/// filters that begin with a wildcard together.
class Interest {
public:
    /// Which of its tables a filter is counted in.
    using Table = std::uint8_t;

    Interest() = default;
    ~Interest();
    Interest(const Interest&) = delete;
    Interest& operator=(const Interest&) = delete;

    /// Call it once for each filter that has subscribers, or will have. From any thread: a
    /// subscription in the shard's mailbox counts already.
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

    bool wants(const Topic& topic) const;

private:
    /// Counts are raised before the SUBACK is sent, so a client that publishes after a SUBACK finds
    /// the subscriber. A cell of a table counts the few filters that share it; should they ever be
    /// 255, it has lost count and stays there.
    using Cell = std::atomic<std::uint8_t>;
    using LevelCell = std::atomic<std::uint32_t>;

    /// With more filters, further ones go into larger tables, so that two topics of five at most
    /// wake the shard in vain; with few, little memory is touched.
    static constexpr std::size_t cells_of[] = {1 << 15, 1 << 18, 1 << 21, 1 << 23, 1 << 25};
    /// So many filters are there when a table takes no more.
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
