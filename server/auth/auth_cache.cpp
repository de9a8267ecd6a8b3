#include "server/auth/auth_cache.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace pulsegate {

AuthCache::AuthCache(Millis lifetime, std::size_t most) : lifetime_(lifetime), most_(most) {
    if (RAND_bytes(secret_.data(), static_cast<int>(secret_.size())) != 1)
        throw std::runtime_error("auth-hook: OpenSSL has no random numbers");
}

AuthCache::Key AuthCache::key_of(const Credentials& credentials) const {
    std::string text;
    for (const std::string* part :
         {&credentials.user, &credentials.client, &credentials.password}) {
        text += std::to_string(part->size());
        text += ':';  // so that "a" + "bc" is not "ab" + "c"
        text += *part;
    }
    Key key;
    if (!HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(), key.data(),
              nullptr))
        throw std::runtime_error("auth-hook: OpenSSL can't compute a MAC");
    return key;
}

std::optional<AuthResult> AuthCache::find(const Key& key, Millis now) {
    forget_old(now);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return std::nullopt;
    if (found->second->until > now) return found->second->result;
    forget(found->second);
    return std::nullopt;
}

void AuthCache::put(const Key& key, AuthResult result, Millis now, std::int64_t unix_now) {
    forget_old(now);
    if (const auto known = by_key_.find(key); known != by_key_.end()) forget(known->second);
    Millis lifetime = lifetime_;
    if (result.expiry && *result.expiry - unix_now < lifetime / 1000 + 1)
        lifetime = std::min(lifetime, (*result.expiry - unix_now) * 1000);
    if (lifetime <= 0 || most_ == 0) return;
    if (entries_.size() == most_) forget(entries_.begin());
    entries_.push_back({key, std::move(result), now + lifetime});
    by_key_.emplace(key, std::prev(entries_.end()));
}

void AuthCache::clear() {
    entries_.clear();
    by_key_.clear();
}

void AuthCache::forget(Entries::iterator entry) {
    by_key_.erase(entry->key);
    entries_.erase(entry);
}

/// Almost all entries have the same lifetime, so those that expired are in front.
void AuthCache::forget_old(Millis now) {
    while (!entries_.empty() && entries_.front().until <= now) forget(entries_.begin());
}

}  // namespace pulsegate
