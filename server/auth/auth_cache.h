#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

#include "server/auth/auth_result.h"
#include "server/auth/credential_mac.h"
#include "server/auth/credentials.h"
#include "server/base/clock.h"

namespace pulsegate {

/// Keeps results for a while, so a client that reconnects soon needs no request to the auth hook.
/// It keeps no credentials, only their MACs.
class AuthCache {
public:
    using Key = CredentialMac;

    /// The most results that it keeps, and their most bytes.
    struct Room {
        std::size_t results = 100'000;
        std::size_t bytes = 64 * 1024 * 1024;
    };

    /// `lifetime` 0 disables the cache. Throws std::runtime_error if there are no random numbers.
    explicit AuthCache(Millis lifetime) : AuthCache(lifetime, Room{}) {}
    AuthCache(Millis lifetime, const Room& room) : lifetime_(lifetime), room_(room) {}

    /// Sets another lifetime, and forgets the results that it has.
    void use(Millis lifetime) {
        lifetime_ = lifetime;
        clear();
    }

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
        std::size_t bytes;
    };
    using Entries = std::list<Entry>;

    void forget(Entries::iterator entry);
    void forget_old(Millis now);

    Millis lifetime_;
    const Room room_;
    const CredentialMacs macs_;
    Entries entries_;        ///< the oldest first
    std::size_t bytes_ = 0;  ///< of all results
    boost::unordered_flat_map<Key, Entries::iterator, CredentialMacHash> by_key_;
};

}  // namespace pulsegate
