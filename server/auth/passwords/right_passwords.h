#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "server/auth/credential_mac.h"
#include "server/base/hash.h"

namespace pulsegate {

/// Remembers passwords that were right, so clients that return need no hash. It keeps them as MACs,
/// at most one for each user of the file. It belongs to one reading of the password file; a new
/// reading starts with an empty one. Any thread may use it.
class RightPasswords {
public:
    void remember(std::string_view user, const CredentialMac& mac);
    void forget(std::string_view user);
    bool contains(std::string_view user, const CredentialMac& mac) const;

private:
    mutable std::mutex mutex_;
    boost::unordered_flat_map<std::string, CredentialMac, TextHash, std::equal_to<>> by_user_;
};

}  // namespace pulsegate
