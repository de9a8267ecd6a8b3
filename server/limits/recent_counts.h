#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "server/base/clock.h"
#include "server/base/hash.h"

namespace pulsegate {

/// A key for two texts. Peers can't choose texts whose keys collide.
inline std::uint64_t recent_key(std::string_view first, std::string_view second) {
    return keyed_hash(first, second);
}

/// How often something happened within the last minute, by key: a sliding window out of two maps,
/// one for this minute and one for the last. The last minute's counts are weighted by the part of
/// it that lies within the last 60 s, and are dropped all at once.
template <class Key>
class RecentCounts {
public:
    /// Counts an event of this weight. Returns the key's count in the window, this one included.
    unsigned add(const Key& key, Millis now, unsigned weight = 1) {
        turn_page(now);
        if (present_.size() < most_keys || present_.contains(key)) present_[key] += weight;
        return count(key, now);
    }

    unsigned count(const Key& key, Millis now) {
        turn_page(now);
        const auto of = [&key](const Counts& counts) {
            const auto found = counts.find(key);
            return found == counts.end() ? 0u : found->second;
        };
        const Millis left = window - (now - began_);
        return of(present_) + static_cast<unsigned>(of(past_) * left / window);
    }

    /// Once a second: the memory of what was long ago is given back, though nobody counts.
    void tick(Millis now) { turn_page(now); }

    void forget(const Key& key) {
        present_.erase(key);
        past_.erase(key);
    }

    static constexpr Millis window = 60'000;

private:
    using Counts = boost::unordered_flat_map<Key, unsigned>;

    /// Further keys are not counted, so that peers that invent names can't fill the memory.
    static constexpr std::size_t most_keys = 200'000;

    void turn_page(Millis now) {
        if (now - began_ < window) return;
        past_ = now - began_ < 2 * window ? std::exchange(present_, {}) : Counts();
        present_ = {};
        began_ = now - (now - began_) % window;
    }

    Counts present_;
    Counts past_;
    Millis began_ = 0;
};

}  // namespace pulsegate
