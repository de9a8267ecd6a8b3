#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "server/transport/tls/key_pool.h"
#include "server/transport/tls/record_ciphers.h"

namespace pulsegate {

/// The keys of one direction of a connection, in memory that it does not own: secret, key, IV and
/// the number of the next record (RFC 8446, sections 5.3 and 7.3). It can't be printed.
class TrafficKeys {
public:
    static constexpr std::size_t size(Suite suite) {
        return sizeof(std::uint64_t) + nonce_size + key_size(suite) + secret_size(suite);
    }

    TrafficKeys(Suite suite, std::uint8_t* memory) : suite_(suite), memory_(memory) {}

    /// Derives the first key of the secret, with the number 0. False if OpenSSL fails.
    [[nodiscard]] bool begin(std::span<const std::uint8_t> secret);
    /// A key update: derives the next secret and its key, with the number 0.
    [[nodiscard]] bool update();

    /// The key and nonce for one record. Its number is used up whatever happens to the record, so
    /// no two records have the same number. Nothing if there are no more numbers.
    std::optional<RecordCiphers::Use> use_once();

    /// The state for the process that continues the connection.
    std::span<const std::uint8_t> secret_bytes() const { return secret(); }
    std::uint64_t sequence() const;
    /// Continues with the number at which OpenSSL ended.
    void set_sequence(std::uint64_t number);

private:
    [[nodiscard]] bool derive();
    std::uint8_t* iv() const { return memory_ + sizeof(std::uint64_t); }
    std::uint8_t* key() const { return iv() + nonce_size; }
    std::span<std::uint8_t> secret() const {
        return {key() + key_size(suite_), secret_size(suite_)};
    }

    Suite suite_;
    std::uint8_t* memory_;
};

/// The keys of one connection, in both directions. They are in the pool, and are wiped there. A
/// move of this object only moves the pointer to them. They can't be copied.
class TlsKeys {
public:
    /// The keys are null if there is no memory, or if OpenSSL fails.
    TlsKeys(Suite suite, std::span<const std::uint8_t> of_client,
            std::span<const std::uint8_t> of_server);
    TlsKeys(TlsKeys&& other) noexcept
        : suite_(other.suite_), memory_(std::exchange(other.memory_, nullptr)) {}
    TlsKeys& operator=(TlsKeys&&) = delete;
    ~TlsKeys();

    Suite suite() const { return suite_; }
    explicit operator bool() const { return memory_ != nullptr; }

    TrafficKeys of_client() const { return {suite_, memory_}; }
    TrafficKeys of_server() const { return {suite_, memory_ + TrafficKeys::size(suite_)}; }

private:
    void wipe();

    Suite suite_;
    std::uint8_t* memory_;
};

}  // namespace pulsegate
