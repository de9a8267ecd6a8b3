#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "server/clock.h"

namespace pulsegate {

/// Two texts as a key. It holds a secret of this process, so that nobody can choose texts to be
/// taken for others.
std::uint64_t fingerprint(std::string_view first, std::string_view second);

/// How often something happened within the last minute, by key. What happened before the minute
/// at hand counts for as much of it as still lies within the last 60 s, so that two maps do, and
/// what is long ago goes all at once.
template <class Key>
class RecentCounts {
public:
    /// It happened. Returns how often lately, this time included.
    unsigned add(const Key& key, Millis now) {
        turn_page(now);
        if (present_.size() < most_keys || present_.contains(key)) ++present_[key];
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

    void forget(const Key& key) {
        present_.erase(key);
        past_.erase(key);
    }

    static constexpr Millis window = 60'000;

private:
    using Counts = boost::unordered_flat_map<Key, unsigned>;

    /// Beyond so many, further keys are not counted: names of the moment must not fill the memory.
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
