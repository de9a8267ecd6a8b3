#include "server/auth/passwords/right_passwords.h"

#include <openssl/crypto.h>

namespace pulsegate {

void RightPasswords::remember(std::string_view user, const CredentialMac& mac) {
    const std::lock_guard lock(mutex_);
    by_user_.insert_or_assign(std::string(user), mac);
}

void RightPasswords::forget(std::string_view user) {
    const std::lock_guard lock(mutex_);
    const auto known = by_user_.find(user);
    if (known != by_user_.end()) by_user_.erase(known);
}

bool RightPasswords::contains(std::string_view user, const CredentialMac& mac) const {
    const std::lock_guard lock(mutex_);
    const auto known = by_user_.find(user);
    return known != by_user_.end() &&
           CRYPTO_memcmp(known->second.data(), mac.data(), mac.size()) == 0;
}

}  // namespace pulsegate
