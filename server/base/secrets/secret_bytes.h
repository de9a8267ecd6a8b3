#pragma once

#include <openssl/crypto.h>

#include <string>
#include <string_view>
#include <utility>

namespace pulsegate {

/// Bytes that are wiped when they are destroyed.
class SecretBytes {
public:
    SecretBytes() = default;
    explicit SecretBytes(std::string_view bytes) : bytes_(bytes) {}
    SecretBytes(const SecretBytes&) = default;
    SecretBytes(SecretBytes&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    SecretBytes& operator=(SecretBytes other) noexcept {
        bytes_.swap(other.bytes_);
        return *this;
    }
    ~SecretBytes() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

    std::string_view view() const { return bytes_; }

    bool operator==(const SecretBytes&) const = default;

private:
    std::string bytes_;
};

/// Wipes bytes that it does not own when it is destroyed.
class WipedAtEnd {
public:
    explicit WipedAtEnd(std::string& bytes) : bytes_(bytes) {}
    ~WipedAtEnd() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
    WipedAtEnd(const WipedAtEnd&) = delete;
    WipedAtEnd& operator=(const WipedAtEnd&) = delete;

private:
    std::string& bytes_;
};

}  // namespace pulsegate
