#include "server/base/hash.h"

#include <sys/random.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace pulsegate {

namespace {

/// Loads a little-endian word, whatever the byte order of the machine.
template <class Word>
std::uint64_t load(const char* at) {
    static_assert(std::endian::native == std::endian::little,
                  "big-endian machines need a byte swap here");
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

/// Loads the last bytes of a text, fewer than eight. It needs no loop, because the loads may
/// overlap.
std::uint64_t load_rest(const char* at, std::size_t size) {
    if (size >= 4)
        return load<std::uint32_t>(at) | load<std::uint32_t>(at + size - 4) << 8 * (size - 4);
    if (size == 0) return 0;
    return load<std::uint8_t>(at) | load<std::uint8_t>(at + size / 2) << 8 * (size / 2) |
           load<std::uint8_t>(at + size - 1) << 8 * (size - 1);
}

/// The state of one SipHash-1-3; words are added one by one.
class SipHash {
public:
    explicit SipHash(const HashKey& key)
        : v0_(key.low ^ 0x736F6D65'70736575),
          v1_(key.high ^ 0x646F7261'6E646F6D),
          v2_(key.low ^ 0x6C796765'6E657261),
          v3_(key.high ^ 0x74656462'79746573) {}

    void add(std::uint64_t word) {
        v3_ ^= word;
        round();
        v0_ ^= word;
    }

    /// Adds the text and the end of all that was hashed; `before` bytes went in already.
    std::uint64_t finish(std::string_view text, std::size_t before = 0) {
        const char* at = text.data();
        std::size_t left = text.size();
        for (; left >= 8; left -= 8, at += 8) add(load<std::uint64_t>(at));
        add(load_rest(at, left) | std::uint64_t{before + text.size()} << 56);
        v2_ ^= 0xFF;
        round();
        round();
        round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

private:
    void round() {
        v0_ += v1_;
        v1_ = std::rotl(v1_, 13) ^ v0_;
        v0_ = std::rotl(v0_, 32);
        v2_ += v3_;
        v3_ = std::rotl(v3_, 16) ^ v2_;
        v0_ += v3_;
        v3_ = std::rotl(v3_, 21) ^ v0_;
        v2_ += v1_;
        v1_ = std::rotl(v1_, 17) ^ v2_;
        v2_ = std::rotl(v2_, 32);
    }

    std::uint64_t v0_, v1_, v2_, v3_;
};

/// A hash state that contains the secret of the process.
const SipHash& keyed() {
    static const SipHash begun(random_key());
    return begun;
}

/// Atomic, because the tests start a gateway while threads of another one make fingerprints.
struct FingerprintKey {
    explicit FingerprintKey(const HashKey& key) : low(key.low), high(key.high) {}

    std::atomic<std::uint64_t> low;
    std::atomic<std::uint64_t> high;
};

FingerprintKey& fingerprint_key() {
    static FingerprintKey key(random_key());
    return key;
}

SipHash for_fingerprints() {
    const FingerprintKey& key = fingerprint_key();
    return SipHash({.low = key.low.load(std::memory_order_relaxed),
                    .high = key.high.load(std::memory_order_relaxed)});
}

}  // namespace

HashKey random_key() {
    HashKey key;
    // A request for so few bytes is never answered in part. It may be interrupted before the system
    // has randomness.
    while (getrandom(&key, sizeof key, 0) != sizeof key)
        if (errno != EINTR) throw std::system_error(errno, std::system_category(), "getrandom");
    return key;
}

std::uint64_t siphash13(const HashKey& key, std::string_view text) {
    return SipHash(key).finish(text);
}

std::uint64_t keyed_hash(std::string_view text) { return SipHash(keyed()).finish(text); }

std::uint64_t keyed_hash(std::uint64_t number) { return keyed_hash(number, {}); }

std::uint64_t keyed_hash(std::uint64_t number, std::string_view text) {
    SipHash hash = keyed();
    hash.add(number);
    return hash.finish(text, sizeof number);
}

std::uint64_t keyed_hash(std::string_view first, std::string_view second) {
    return keyed_hash(keyed_hash(first), second);
}

std::uint64_t stable_hash(std::string_view text) {
    return siphash13({0x07060504'03020100, 0x0F0E0D0C'0B0A0908}, text);
}

std::uint64_t fingerprint(std::string_view user) { return for_fingerprints().finish(user); }

std::uint64_t fingerprint(std::string_view user, std::string_view client) {
    SipHash hash = for_fingerprints();
    hash.add(fingerprint(user));
    return hash.finish(client, sizeof(std::uint64_t));
}

void set_fingerprint_key(const HashKey& key) {
    fingerprint_key().low.store(key.low, std::memory_order_relaxed);
    fingerprint_key().high.store(key.high, std::memory_order_relaxed);
}

}  // namespace pulsegate
