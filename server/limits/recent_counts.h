#pragma once

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/secrets/wiping_allocator.h"

namespace pulsegate {

/// A key for two texts. Peers can't choose texts whose keys collide. A process that goes on
/// counting after an upgrade has the same keys.
inline std::uint64_t recent_key(std::string_view first, std::string_view second) {
    return fingerprint(first, second);
}

/// Counters that keys share. Each key has two; the lower one is at least the key's own count (a
/// count-min sketch: Cormode and Muthukrishnan, 2005). It takes no memory until it is used.
class SharedCounts {
public:
    void add(std::uint64_t hash, unsigned weight) {
        if (counters_.empty()) counters_.resize(2 * row);
        for (const std::size_t place : places(hash)) counters_[place] += weight;
    }
    unsigned count(std::uint64_t hash) const {
        if (counters_.empty()) return 0;
        const auto [first, second] = places(hash);
        return std::min(counters_[first], counters_[second]);
    }

private:
    static constexpr std::size_t row = 1 << 17;

    static std::array<std::size_t, 2> places(std::uint64_t hash) {
        return {keyed_hash(hash) % row, row + keyed_hash(~hash) % row};
    }

    std::vector<unsigned> counters_;
};

/// Counts events of the last minute by key: a sliding window made of two maps, one for this minute
/// and one for the previous one. The previous minute's counts are weighted by the part of it that
/// lies within the last 60 s, and are dropped all at once.
///
/// Peers that invent names can neither fill the memory nor stop the counting. When there are too
/// many keys, further ones share counters, and a key's count is never too low.
///
/// A key may be the fingerprint of a password, so all memory is wiped before it is freed.
template <class Key>
class RecentCounts {
public:
    /// Counts an event of this weight. Returns the key's count in the window, this one included.
    unsigned add(const Key& key, Millis now, unsigned weight = 1) {
        turn_page(now);
        if (present_.counts.size() < most_keys || present_.counts.contains(key))
            present_.counts[key] += weight;
        else
            present_.shared.add(hash(key), weight);
        return count(key, now);
    }

    unsigned count(const Key& key, Millis now) {
        turn_page(now);
        const Millis left = window - (now - began_);
        return present_.of(key) + static_cast<unsigned>(past_.of(key) * left / window);
    }

    /// True if the key has a counter of its own. A key with a shared counter may be new.
    bool is_counted_alone(const Key& key) const {
        return present_.counts.contains(key) || past_.counts.contains(key);
    }

    /// Call it once a second. It frees the memory of old counts even if nothing is counted.
    void tick(Millis now) { turn_page(now); }

    void forget(const Key& key) {
        present_.counts.erase(key);
        past_.counts.erase(key);
    }

    /// The counts for a process that goes on counting after an upgrade.
    struct Pages {
        struct Counted {
            Key key{};
            unsigned present = 0;
            unsigned past = 0;
        };

        Millis age = 0;  ///< of the present page
        std::vector<Counted, WipingAllocator<Counted>> counted{};
    };

    /// If there are very many keys, only those with the highest counts; none that share counters.
    Pages pages(Millis now) {
        turn_page(now);
        Pages pages{.age = now - began_};
        pages.counted.reserve(present_.counts.size() + past_.counts.size());
        for (const auto& [key, count] : present_.counts) {
            const auto past = past_.counts.find(key);
            pages.counted.push_back({key, count, past == past_.counts.end() ? 0 : past->second});
        }
        for (const auto& [key, count] : past_.counts)
            if (!present_.counts.contains(key)) pages.counted.push_back({key, 0, count});
        keep_highest(pages.counted);
        return pages;
    }

    /// Adds them to the counts here.
    void adopt(const Pages& pages, Millis now) {
        turn_page(now);
        began_ = now - std::clamp<Millis>(pages.age, 0, window - 1);
        for (const auto& [key, present, past] : pages.counted) {
            present_.raise(key, present);
            past_.raise(key, past);
        }
    }

    static constexpr Millis window = 60'000;

    static constexpr std::size_t most_keys = 200'000;
    /// The most keys that pass to another process, because no client is served meanwhile.
    static constexpr std::size_t most_told = 20'000;

private:
    static std::uint64_t hash(const Key& key) { return boost::hash<Key>()(key); }

    /// The counts of one minute.
    struct Page {
        boost::unordered_flat_map<Key, unsigned, boost::hash<Key>, std::equal_to<Key>,
                                  WipingAllocator<std::pair<const Key, unsigned>>>
            counts{};
        SharedCounts shared{};

        unsigned of(const Key& key) const {
            const auto found = counts.find(key);
            return found == counts.end() ? shared.count(hash(key)) : found->second;
        }
        void raise(const Key& key, unsigned count) {
            if (count == 0 || (counts.size() >= most_keys && !counts.contains(key))) return;
            unsigned& present = counts[key];
            present = std::max(present, count);
        }
    };

    static void keep_highest(auto& counted) {
        if (counted.size() <= most_told) return;
        const auto end = counted.begin() + most_told;
        std::ranges::nth_element(counted, end, std::ranges::greater(), [](const auto& each) {
            return std::uint64_t{each.present} + each.past;
        });
        counted.erase(end, counted.end());
    }

    void turn_page(Millis now) {
        if (now - began_ < window) return;
        past_ = now - began_ < 2 * window ? std::exchange(present_, {}) : Page();
        present_ = Page();
        began_ = now - (now - began_) % window;
    }

    Page present_{};
    Page past_{};
    Millis began_ = 0;
};

}  // namespace pulsegate
