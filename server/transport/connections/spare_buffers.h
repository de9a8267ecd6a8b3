#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/bytes.h"

namespace pulsegate {

/// Unused output buffers for the connections of one shard. Most connections need a buffer only
/// until the end of the round. A room of thousands needs thousands of small buffers at once.
class SpareBuffers {
public:
    std::unique_ptr<Buffer> take() {
        if (spare_.empty()) return std::make_unique<Buffer>();
        auto buffer = std::move(spare_.back());
        spare_.pop_back();
        unneeded_ = std::min(unneeded_, spare_.size());
        bytes_ -= cost(*buffer);
        return buffer;
    }

    /// Large buffers go back to the allocator, so that the memory of one burst is freed.
    void give_back(std::unique_ptr<Buffer> buffer) {
        const auto bytes = cost(*buffer);
        if (buffer->capacity() > largest || bytes_ + bytes > most) return;
        bytes_ += bytes;
        buffer->clear();
        spare_.push_back(std::move(buffer));
    }

    /// Frees some buffers that were not needed since the last call. Call it once a second.
    void free_unneeded() {
        const auto some = spare_.begin() + static_cast<std::ptrdiff_t>((unneeded_ + 7) / 8);
        for (auto each = spare_.begin(); each != some; ++each) bytes_ -= cost(**each);
        spare_.erase(spare_.begin(), some);
        unneeded_ = spare_.size();
    }

private:
    static constexpr std::size_t largest = 16 * 1024;
    static constexpr std::size_t most = 1024 * 1024;  ///< the maximum bytes of all spare buffers

    static std::size_t cost(const Buffer& buffer) {
        constexpr std::size_t overhead = 32;  // bytes of the allocator and the list
        return sizeof(Buffer) + buffer.capacity() + overhead;
    }

    std::vector<std::unique_ptr<Buffer>> spare_;
    std::size_t bytes_ = 0;
    std::size_t unneeded_ = 0;  ///< how many of the first buffers were not needed
};

}  // namespace pulsegate
