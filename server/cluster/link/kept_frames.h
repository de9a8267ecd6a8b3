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

    /// The other node has received all up to this position. False if it can't have.
    bool acknowledge(std::uint64_t position);

    /// The link has a new connection, on which all from this position on is written. False if that
    /// is not possible.
    bool resume(std::uint64_t position);

    std::uint64_t acknowledged() const { return acknowledged_; }
    /// Bytes that are not acknowledged.
    std::size_t bytes() const { return static_cast<std::size_t>(end_ - acknowledged_); }
    /// Bytes that `next` has not yet returned.
    std::size_t unwritten() const { return static_cast<std::size_t>(end_ - written_); }

private:
    std::deque<std::string>
        batches_;              ///< as they were added; the first may be acknowledged in part
    std::size_t next_ = 0;     ///< of `batches_`
    std::uint64_t begin_ = 0;  ///< of the first batch
    std::uint64_t acknowledged_ = 0;
    std::uint64_t written_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace pulsegate
