#include "server/cluster/link/kept_frames.h"

#include <utility>

namespace pulsegate {

void KeptFrames::add(std::string frames) {
    end_ += frames.size();
    batches_.push_back(std::move(frames));
}

std::string_view KeptFrames::next() {
    if (next_ == batches_.size()) return {};
    const std::string_view frames = batches_[next_++];
    written_ += frames.size();
    return frames;
}

bool KeptFrames::acknowledge(std::uint64_t position) {
    if (position < acknowledged_ || position > written_) return false;
    acknowledged_ = position;
    while (next_ > 0 && begin_ + batches_.front().size() <= position) {
        begin_ += batches_.front().size();
        batches_.pop_front();
        --next_;
    }
    return true;
}

bool KeptFrames::resume(std::uint64_t position) {
    if (!acknowledge(position)) return false;
    if (position != begin_) batches_.front().erase(0, position - begin_);
    begin_ = position;
    written_ = position;
    next_ = 0;
    return true;
}

}  // namespace pulsegate
