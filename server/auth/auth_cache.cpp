#include "server/auth/auth_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pulsegate {

AuthCache::Key AuthCache::key_of(const Credentials& credentials) const {
    return macs_.of({credentials.user, credentials.client, credentials.password});
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
