#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/bytes.h"

namespace pulsegate {

/// Buffers to send from that nobody needs now, for the connections of one shard: most need one
/// until the end of the turn only.
class SpareBuffers {
public:
    std::unique_ptr<Buffer> take() {
        if (spare_.empty()) return std::make_unique<Buffer>();
        auto buffer = std::move(spare_.back());
        spare_.pop_back();
        return buffer;
    }

    /// Those that have grown large go back to the allocator, so that one burst does not stay in
    /// memory.
    void give_back(std::unique_ptr<Buffer> buffer) {
        if (buffer->capacity() > largest || spare_.size() >= most) return;
        buffer->clear();
        spare_.push_back(std::move(buffer));
    }

private:
    static constexpr std::size_t largest = 16 * 1024;
    static constexpr std::size_t most = 256;

    std::vector<std::unique_ptr<Buffer>> spare_;
};

}  // namespace pulsegate
