#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loadgen/time.h"

namespace pulsegate::load {

/// The earliest times at which the messages of a flow were sent. It keeps few times, so the times
/// of a long flow are coarse.
class SendTimes {
public:
    struct Entry {
        std::uint32_t number;
        Time at;
        bool operator==(const Entry&) const = default;
    };

    /// The numbers and the times only grow.
    void add(std::uint32_t number, Time at);

    /// The first of the numbers [from, to) that was surely sent after `time`, like all later ones;
    /// `to` if there is none.
    std::uint32_t first_after(Time time, std::uint32_t from, std::uint32_t to) const;

    std::span<const Entry> entries() const { return entries_; }

    static constexpr std::size_t most_entries = 32;

private:
    void thin_out(Duration apart);

    std::vector<Entry> entries_;
    Duration apart_{};  ///< the smallest distance between two times
};

}  // namespace pulsegate::load
