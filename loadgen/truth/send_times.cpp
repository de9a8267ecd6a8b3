#include "loadgen/truth/send_times.h"

#include <algorithm>

namespace pulsegate::load {

void SendTimes::add(std::uint32_t number, Time at) {
    if (!entries_.empty() && at <= entries_.back().at + apart_) return;
    if (entries_.size() == most_entries) {
        thin_out((at - entries_.front().at) / (most_entries / 2));
        if (at <= entries_.back().at + apart_) return;
    }
    entries_.push_back({number, at});
}

void SendTimes::thin_out(Duration apart) {
    apart_ = apart;
    auto kept = entries_.begin();
    for (auto entry = kept + 1; entry != entries_.end(); ++entry)
        if (entry->at > kept->at + apart) *++kept = *entry;
    entries_.erase(kept + 1, entries_.end());
}

std::uint32_t SendTimes::first_after(Time time, std::uint32_t from, std::uint32_t to) const {
    const auto after = std::ranges::upper_bound(entries_, time, {}, &Entry::at);
    return after == entries_.end() ? to : std::clamp(after->number, from, to);
}

}  // namespace pulsegate::load
