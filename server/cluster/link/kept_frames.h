#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace pulsegate {

/// The frames of a link that the other node has perhaps not received. They are kept until it
/// acknowledges them, and written again on the link's next connection. A *position* is a number of
/// bytes of frames since the link began.
class KeptFrames {
public:
    void add(std::string frames);

    /// The frames to write next; empty if there are none. They stay valid until the next call.
    std::string_view next();

    /// The other node has received everything up to this position. Returns false if that is
    /// impossible.
    bool acknowledge(std::uint64_t position);

    /// The link has a new connection. Everything from this position on is written on it. Returns
    /// false if that is not possible.
    bool resume(std::uint64_t position);

    std::uint64_t acknowledged() const { return acknowledged_; }
    /// Bytes that are not acknowledged.
    std::size_t bytes() const { return static_cast<std::size_t>(end_ - acknowledged_); }
    /// Bytes that `next` has not yet returned.
    std::size_t unwritten() const { return static_cast<std::size_t>(end_ - written_); }

private:
    std::deque<std::string>
        batches_;  ///< in the order of their addition; a part of the first one may be acknowledged
    std::size_t next_ = 0;     ///< index of the next batch to write
    std::uint64_t begin_ = 0;  ///< position of the first batch
    std::uint64_t acknowledged_ = 0;
    std::uint64_t written_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace pulsegate
