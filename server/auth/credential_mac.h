#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace pulsegate {

/// A MAC (HMAC-SHA256) of credentials. It replaces them where they must not be kept.
using CredentialMac = std::array<unsigned char, 32>;

struct CredentialMacHash {
    std::size_t operator()(const CredentialMac& mac) const {
        std::size_t hash = 0;  // a MAC is uniformly distributed
        std::memcpy(&hash, mac.data(), sizeof hash);
        return hash;
    }
};

/// Makes MACs with a random key that never leaves the process, so nobody outside can guess
/// passwords from them. Any thread may use it.
class CredentialMacs {
public:
    /// Throws std::runtime_error if there are no random numbers.
    CredentialMacs();

    /// The MAC of several texts: ("a", "bc") and ("ab", "c") differ.
    CredentialMac of(std::initializer_list<std::string_view> texts) const;

private:
    CredentialMac key_{};
};

}  // namespace pulsegate
