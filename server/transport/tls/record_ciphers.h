#pragma once

#include <openssl/evp.h>
#include <openssl/kdf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "server/base/memory/free_with.h"

namespace pulsegate {

/// The cipher suites of TLS 1.3 that OpenSSL negotiates by itself.
enum class Suite : std::uint8_t { aes_128_gcm, aes_256_gcm, chacha20_poly1305 };
inline constexpr std::size_t suites = 3;

constexpr std::size_t key_size(Suite suite) { return suite == Suite::aes_128_gcm ? 16 : 32; }
/// The size of the suite's hash, and of its secrets.
constexpr std::size_t secret_size(Suite suite) { return suite == Suite::aes_256_gcm ? 48 : 32; }
inline constexpr std::size_t longest_secret = 48;

inline constexpr std::size_t nonce_size = 12;
using Nonce = std::array<std::uint8_t, nonce_size>;
inline constexpr std::size_t tag_size = 16;

/// OpenSSL's ciphers and its key derivation, for all connections of one thread: one context for
/// each suite and direction, into which each record puts its key.
class RecordCiphers {
public:
    static RecordCiphers& of_this_thread();

    RecordCiphers(const RecordCiphers&) = delete;
    RecordCiphers& operator=(const RecordCiphers&) = delete;

    /// False only if OpenSSL's configuration excludes the suite.
    bool has(Suite suite) const;

    /// A key of the suite, with the nonce for one record.
    struct Use {
        Suite suite;
        const std::uint8_t* key;
        Nonce nonce;
    };
    /// Encrypts in place. If OpenSSL fails, returns false, and nothing of the record may be sent.
    [[nodiscard]] bool seal(const Use& use, std::span<const std::uint8_t> header,
                            std::span<std::uint8_t> text, std::span<std::uint8_t, tag_size> tag);
    /// Decrypts in place. If the record is not authentic, returns false, and nothing of it may be
    /// used.
    [[nodiscard]] bool open(const Use& use, std::span<const std::uint8_t> header,
                            std::span<std::uint8_t> text, std::span<std::uint8_t, tag_size> tag);
    /// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
    [[nodiscard]] bool expand(Suite suite, std::span<const std::uint8_t> secret,
                              std::string_view label, std::span<std::uint8_t> to);

private:
    using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeWith<EVP_CIPHER_CTX_free>>;
    using Derivation = std::unique_ptr<EVP_KDF_CTX, FreeWith<EVP_KDF_CTX_free>>;

    RecordCiphers();

    std::array<Context, suites> opening_{};
    std::array<Context, suites> sealing_{};
    std::array<Derivation, suites> derivations_{};
};

}  // namespace pulsegate
