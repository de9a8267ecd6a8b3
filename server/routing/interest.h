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
    bool wants(std::string_view topic) const;

private:
    /// One byte each: a cell that reaches the top stays there, for it has lost count.
    using Cell = std::atomic<std::uint8_t>;
    static constexpr std::size_t cells = 1 << 18;

    Cell* cell(std::string_view filter);
    static void change(Cell& cell, int by);

    std::unique_ptr<Cell[]> cells_;
    std::atomic<std::uint32_t> anything_{0};
};

}  // namespace pulsegate
