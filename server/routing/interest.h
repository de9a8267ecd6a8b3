#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace pulsegate {

/// Which topics a shard may have subscribers for, readable from every thread: a counting Bloom
/// filter of its filters. It may say yes in vain, never no: a filter is in it before its
/// subscription is acknowledged.
///
/// A filter without wildcards counts under its text, one with wildcards under its first level, and
/// one that begins with a wildcard under "anything".
class Interest {
public:
    Interest();

    /// Once for each filter that has subscribers, or is about to have one. From any thread: what is
    /// on its way to the owner by mail counts already.
    void add(std::string_view filter);
    void remove(std::string_view filter);

    /// A topic to ask about, of one shard after the other.
    class Topic {
    public:
        Topic(std::string_view topic);

    private:
        friend class Interest;
        std::size_t whole_;
        std::size_t first_level_;
    };

    bool wants(const Topic& topic) const;

private:
    /// Two bytes each: a cell that reaches the top stays there, for it has lost count. Counts are
    /// raised before a SUBACK leaves, so whoever publishes on hearing of it finds them.
    using Cell = std::atomic<std::uint16_t>;
    static constexpr std::size_t cells = 1 << 17;

    Cell* cell(std::string_view filter);
    static void change(Cell& cell, int by);

    std::unique_ptr<Cell[]> cells_;
    std::atomic<std::uint32_t> anything_{0};
};

}  // namespace pulsegate
