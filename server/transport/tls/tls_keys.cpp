#include "server/transport/tls/tls_keys.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace pulsegate {

static_assert(2 * TrafficKeys::size(Suite::aes_128_gcm) == KeyPool::sizes[0]);
static_assert(2 * TrafficKeys::size(Suite::chacha20_poly1305) == KeyPool::sizes[1]);
static_assert(2 * TrafficKeys::size(Suite::aes_256_gcm) == KeyPool::sizes[2]);

bool TrafficKeys::begin(std::span<const std::uint8_t> secret_bytes) {
    if (secret_bytes.size() != secret_size(suite_)) return false;
    std::copy(secret_bytes.begin(), secret_bytes.end(), secret().begin());
    return derive();
}

bool TrafficKeys::update() {
    std::array<std::uint8_t, longest_secret> next;
    const std::span<std::uint8_t> used(next.data(), secret_size(suite_));
    const bool done = RecordCiphers::of_this_thread().expand(suite_, secret(), "traffic upd", used);
    if (done) std::copy(used.begin(), used.end(), secret().begin());
    OPENSSL_cleanse(next.data(), next.size());
    return done && derive();
}

bool TrafficKeys::derive() {
    auto& ciphers = RecordCiphers::of_this_thread();
    set_sequence(0);
    return ciphers.expand(suite_, secret(), "key", {key(), key_size(suite_)}) &&
           ciphers.expand(suite_, secret(), "iv", {iv(), nonce_size});
}

std::optional<RecordCiphers::Use> TrafficKeys::use_once() {
    const std::uint64_t number = sequence();
    if (number == UINT64_MAX) return std::nullopt;
    set_sequence(number + 1);
    RecordCiphers::Use use{suite_, key(), {}};
    std::memcpy(use.nonce.data(), iv(), nonce_size);
    for (std::size_t i = 0; i < sizeof number; ++i)
        use.nonce[nonce_size - 1 - i] ^= static_cast<std::uint8_t>(number >> (8 * i));
    return use;
}

std::uint64_t TrafficKeys::sequence() const {
    std::uint64_t number = 0;
    std::memcpy(&number, memory_, sizeof number);
    return number;
}

void TrafficKeys::set_sequence(std::uint64_t number) {
    std::memcpy(memory_, &number, sizeof number);
}

TlsKeys::TlsKeys(Suite suite, std::span<const std::uint8_t> client_secret,
                 std::span<const std::uint8_t> server_secret)
    : suite_(suite), memory_(KeyPool::of_process().take(2 * TrafficKeys::size(suite))) {
    if (memory_ && !(of_client().begin(client_secret) && of_server().begin(server_secret))) wipe();
}

TlsKeys::~TlsKeys() {
    if (memory_) wipe();
}

void TlsKeys::wipe() { KeyPool::of_process().give_back(std::exchange(memory_, nullptr)); }

}  // namespace pulsegate
