#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pulsegate {

/// Hashes of names that peers choose: user names, client ids, topics, filters, addresses. They are
/// keyed with a secret of the process, so that no peer can find names that collide and turn a table
/// into a list. They differ between runs, so they must not leave the process.
///
/// The function is SipHash-1-3 (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012), with
/// one round for each word and three at the end, as in the hash tables of Rust and Python. Any
/// thread.
std::uint64_t keyed_hash(std::string_view text);
std::uint64_t keyed_hash(std::uint64_t number);

/// The hash of a number and a text: the same text with another number has another hash.
std::uint64_t keyed_hash(std::uint64_t number, std::string_view text);

/// The hash of two texts: ("a", "bc") and ("ab", "c") differ.
std::uint64_t keyed_hash(std::string_view first, std::string_view second);

/// A text that is looked up in several tables, hashed once for all. The text must outlive it.
struct HashedText {
    HashedText(std::string_view text) : text(text), hash(keyed_hash(text)) {}
    HashedText(std::string&&) = delete;

    std::string_view text;
    std::uint64_t hash;
};

/// For tables that are searched by text: `boost::unordered_flat_map<std::string, V, TextHash,
/// std::equal_to<>>`.
struct TextHash {
    using is_transparent = void;
    using is_avalanching = void;  ///< all its bits are well mixed

    std::size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

/// A hash that is the same in every process, because files and other nodes depend on it. Never
/// change it. It is SipHash-1-3 with the key of its published test vectors, the bytes 00 01 ... 0f.
/// A peer can find collisions, so no table may be keyed by it.
std::uint64_t stable_hash(std::string_view text);

struct HashKey {
    std::uint64_t low;   ///< the first eight bytes
    std::uint64_t high;  ///< the other eight bytes
};

/// Identifies a user, or a user's client, in stored data. It is keyed with a secret of the store.
/// So it is the same after a restart, and no peer can find two names with the same fingerprint.
std::uint64_t fingerprint(std::string_view user);
std::uint64_t fingerprint(std::string_view user, std::string_view client);

/// Replaces the random secret. Call it before the first fingerprint is made.
void set_fingerprint_key(const HashKey& key);

/// 128 random bits from the system. Throws std::system_error.
HashKey random_key();

/// SipHash-1-3, the function that all hashes above use.
std::uint64_t siphash13(const HashKey& key, std::string_view text);

}  // namespace pulsegate
