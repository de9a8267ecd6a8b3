#include "server/auth/auth_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pulsegate {

namespace {

/// The rules, and the names that a client may have chosen, are what may be large.
std::size_t cost_of(const AuthResult& result) {
    constexpr std::size_t bookkeeping = 400;
    const std::size_t rules = result.rules ? result.rules->bytes() : 0;
    return bookkeeping + result.why.size() + result.user.size() + result.client.size() + rules;
}

}  // namespace

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
    const std::size_t bytes = cost_of(result);
    if (lifetime <= 0 || room_.results == 0 || bytes > room_.bytes) return;
    while (entries_.size() >= room_.results || bytes_ + bytes > room_.bytes)
        forget(entries_.begin());
    bytes_ += bytes;
    entries_.push_back({key, std::move(result), now + lifetime, bytes});
    by_key_.emplace(key, std::prev(entries_.end()));
}

void AuthCache::clear() {
    entries_.clear();
    by_key_.clear();
    bytes_ = 0;
}

void AuthCache::forget(Entries::iterator entry) {
    by_key_.erase(entry->key);
    bytes_ -= entry->bytes;
    entries_.erase(entry);
}

/// Almost all entries have the same lifetime, so those that expired are in front.
void AuthCache::forget_old(Millis now) {
    while (!entries_.empty() && entries_.front().until <= now) forget(entries_.begin());
}

}  // namespace pulsegate
