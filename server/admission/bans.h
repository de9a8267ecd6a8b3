#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/clock.h"

namespace pulsegate {

/// Who may not come in for a while, as people are shown it: an address, or a client of a user.
struct Ban {
    std::string address{};
    std::string user{};
    std::string client{};
    Millis left = 0;  ///< until it ends
};

/// Who is kept out until when. It has no clock.
template <class Key>
class BanList {
public:
    void add(Key key, Millis now, Millis until) {
        if (now >= next_sweep_) {
            next_sweep_ = now + sweep_every;
            erase_if(until_, [now](const auto& entry) { return entry.second <= now; });
        }
        until_.insert_or_assign(std::move(key), until);
    }

    bool contains(const Key& key, Millis now) const {
        const auto found = until_.find(key);
        return found != until_.end() && found->second > now;
    }

    /// False if there was none.
    bool lift(const Key& key) { return until_.erase(key) > 0; }

    bool empty() const { return until_.empty(); }

    /// Calls `visit(key, milliseconds left)` for each that holds.
    template <class Visit>
    void visit(Millis now, Visit visit) const {
        for (const auto& [key, until] : until_)
            if (until > now) visit(key, until - now);
    }

private:
    static constexpr Millis sweep_every = 60'000;

    boost::unordered_flat_map<Key, Millis> until_;
    Millis next_sweep_ = 0;
};

}  // namespace pulsegate
