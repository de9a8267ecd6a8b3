#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/bytes.h"

namespace pulsegate {

/// Buffers to send from that nobody needs now, for the connections of one shard: most need one
/// until the end of the turn only. A room of thousands needs thousands of small ones at once.
class SpareBuffers {
public:
    std::unique_ptr<Buffer> take() {
        if (spare_.empty()) return std::make_unique<Buffer>();
        auto buffer = std::move(spare_.back());
        spare_.pop_back();
        bytes_ -= cost(*buffer);
        return buffer;
    }

    /// Those that have grown large go back to the allocator, so that one burst does not stay in
    /// memory.
    void give_back(std::unique_ptr<Buffer> buffer) {
        const auto bytes = cost(*buffer);
        if (buffer->capacity() > largest || bytes_ + bytes > most) return;
        bytes_ += bytes;
        buffer->clear();
        spare_.push_back(std::move(buffer));
    }

private:
    static constexpr std::size_t largest = 16 * 1024;
    static constexpr std::size_t most = 1024 * 1024;  ///< bytes of all

    static std::size_t cost(const Buffer& buffer) {
        constexpr std::size_t overhead = 32;  // of the allocator and the list
        return sizeof buffer + buffer.capacity() + overhead;
    }

    std::vector<std::unique_ptr<Buffer>> spare_;
    std::size_t bytes_ = 0;
};

}  // namespace pulsegate
