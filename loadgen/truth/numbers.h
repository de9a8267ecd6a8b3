#pragma once

#include <cstdint>
#include <vector>

namespace pulsegate::load {

/// A set of sequence numbers as ranges [from, to). The numbers are mostly added in order.
class Numbers {
public:
    struct Range {
        std::uint32_t from;
        std::uint32_t to;
        bool operator==(const Range&) const = default;
    };

    void add(std::uint32_t number) { add(number, number + 1); }
    void add(std::uint32_t from, std::uint32_t to);

    bool contains(std::uint32_t number) const { return count_in(number, number + 1) > 0; }
    /// How many of [from, to) are in the set.
    std::uint32_t count_in(std::uint32_t from, std::uint32_t to) const;

    bool empty() const { return ranges_.empty(); }
    const std::vector<Range>& ranges() const { return ranges_; }  ///< in order, apart

private:
    std::vector<Range> ranges_;
};

}  // namespace pulsegate::load
