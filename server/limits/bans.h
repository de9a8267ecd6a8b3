#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

/// A banned address, or a banned client of a user, as the admin API shows it.
struct Ban {
    std::string address{};
    std::string user{};
    std::string client{};
    Millis left = 0;  ///< until the ban ends
};

/// Bans with the time when each ends. It has no clock.
template <class Key, class Hash = boost::hash<Key>>
class BanList {
public:
    void add(Key key, Millis now, Millis until) {
        if (now >= next_sweep_) {
            next_sweep_ = now + sweep_every;
            erase_if(until_, [now](const auto& entry) { return entry.second <= now; });
        }
        until_.insert_or_assign(std::move(key), until);
    }

    [[nodiscard]] bool contains(const Key& key, Millis now) const {
        const auto found = until_.find(key);
        return found != until_.end() && found->second > now;
    }

    /// False if the key was not banned.
    [[nodiscard]] bool lift(const Key& key) { return until_.erase(key) > 0; }

    bool empty() const { return until_.empty(); }

    /// Calls `visit(key, milliseconds left)` for each ban that has not ended.
    template <class Visit>
    void visit(Millis now, Visit visit) const {
        for (const auto& [key, until] : until_)
            if (until > now) visit(key, until - now);
    }

private:
    static constexpr Millis sweep_every = 60'000;

    boost::unordered_flat_map<Key, Millis, Hash> until_;
    Millis next_sweep_ = 0;
};

}  // namespace pulsegate
