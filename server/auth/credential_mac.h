#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace pulsegate {

/// What stands for credentials where they themselves must not be kept: a MAC (HMAC-SHA256) of them.
using CredentialMac = std::array<unsigned char, 32>;

struct CredentialMacHash {
    std::size_t operator()(const CredentialMac& mac) const {
        std::size_t hash = 0;  // a MAC is uniformly distributed
        std::memcpy(&hash, mac.data(), sizeof hash);
        return hash;
    }
};

/// Makes MACs under a random key that never leaves the process, so that nobody outside can guess
/// passwords by them. Any thread may use it.
class CredentialMacs {
public:
    /// Throws std::runtime_error if there are no random numbers.
    CredentialMacs();

    /// Of several texts: ("a", "bc") and ("ab", "c") differ.
    CredentialMac of(std::initializer_list<std::string_view> texts) const;

private:
    CredentialMac key_{};
};

}  // namespace pulsegate
