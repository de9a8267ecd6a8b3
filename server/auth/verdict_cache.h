#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <optional>

#include "server/auth/claim.h"
#include "server/auth/verdict.h"
#include "server/clock.h"

namespace pulsegate {

/// Remembers verdicts for a while, so that who comes back soon need not be judged again. It keeps
/// no password and nothing that one could be guessed from elsewhere: what it knows of a claim is a
/// MAC under a key of this process.
class VerdictCache {
public:
    using Key = std::array<unsigned char, 32>;
    struct Hash {
        std::size_t operator()(const Key& key) const {
            std::size_t hash = 0;  // the key is as good as random
            std::memcpy(&hash, key.data(), sizeof hash);
            return hash;
        }
    };

    /// Without a lifetime it remembers nothing. Throws std::runtime_error if there is no
    /// randomness.
    explicit VerdictCache(Millis lifetime, std::size_t most = 100'000);

    /// Of user, client and password; who comes from elsewhere is still the same. Any thread may
    /// ask.
    Key key_of(const Claim& claim) const;

    std::optional<Verdict> find(const Key& key, Millis now);

    /// A verdict that expires is not remembered for longer; `unix_now` in seconds since 1970.
    void put(const Key& key, Verdict verdict, Millis now, std::int64_t unix_now);

    void clear();
    std::size_t size() const { return entries_.size(); }

private:
    struct Entry {
        Key key;
        Verdict verdict;
        Millis until;
    };
    using Entries = std::list<Entry>;

    void forget(Entries::iterator entry);
    void forget_old(Millis now);

    const Millis lifetime_;
    const std::size_t most_;
    Key secret_{};
    Entries entries_;  ///< the oldest first
    boost::unordered_flat_map<Key, Entries::iterator, Hash> by_key_;
};

}  // namespace pulsegate
