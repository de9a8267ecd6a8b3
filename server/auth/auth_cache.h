#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <optional>

#include "server/auth/auth_result.h"
#include "server/auth/credentials.h"
#include "server/base/clock.h"

namespace pulsegate {

/// Keeps results for a while, so that a client that reconnects soon needs no request to the auth
/// hook. It keeps no passwords, and nothing that a password could be guessed from outside the
/// process: credentials are kept as a MAC under a key of this process.
class AuthCache {
public:
    using Key = std::array<unsigned char, 32>;
    struct Hash {
        std::size_t operator()(const Key& key) const {
            std::size_t hash = 0;  // a MAC is uniformly distributed
            std::memcpy(&hash, key.data(), sizeof hash);
            return hash;
        }
    };

    /// `lifetime` 0 disables the cache. Throws std::runtime_error if there are no random numbers.
    explicit AuthCache(Millis lifetime, std::size_t most = 100'000);

    /// The MAC of user, client id and password, not of the address. From any thread.
    Key key_of(const Credentials& credentials) const;

    std::optional<AuthResult> find(const Key& key, Millis now);

    /// A result with an expiry is kept no longer than that. `unix_now` in seconds since 1970.
    void put(const Key& key, AuthResult result, Millis now, std::int64_t unix_now);

    void clear();
    std::size_t size() const { return entries_.size(); }

private:
    struct Entry {
        Key key;
        AuthResult result;
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
