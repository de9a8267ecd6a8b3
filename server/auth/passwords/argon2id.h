#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// The cost of a hash with Argon2id (RFC 9106). The default is the cost in mosquitto 2.1: 46 MiB
/// and some 50 ms.
struct Argon2Cost {
    std::uint32_t memory = 47'104;  ///< KiB
    std::uint32_t passes = 1;
    std::uint32_t lanes = 1;  ///< computed one after the other

    std::uint64_t work() const { return std::uint64_t{memory} * passes; }

    bool operator==(const Argon2Cost&) const = default;
};

/// A cost that takes as long as `costly` takes longer than `own`. Nothing if the difference is
/// negligible.
std::optional<Argon2Cost> difference(const Argon2Cost& costly, const Argon2Cost& own);

/// Each thread that checks passwords takes as much memory as the line that it checks.
inline constexpr std::uint32_t most_argon2_memory = 256 * 1024;  ///< KiB
/// About ten seconds and one second.
inline constexpr std::uint64_t most_argon2_work = 10'000'000;
inline constexpr std::uint64_t slow_argon2_work = 1'000'000;

/// A hash in the form that the reference implementation writes and mosquitto 2.1 uses:
/// `$argon2id$v=19$m=47104,t=1,p=1$salt$hash`, salt and hash in base64 without padding.
struct Argon2Hash {
    Argon2Cost cost;
    std::string salt;
    std::string hash;
};

/// Throws std::runtime_error that names the mistake, without the text.
Argon2Hash parse_argon2(std::string_view text);
std::string to_text(const Argon2Hash& hashed);

/// Computes a hash of `size` bytes. Empty if there is no memory for it.
std::string argon2id(std::string_view password, std::string_view salt, const Argon2Cost& cost,
                     std::size_t size);

}  // namespace pulsegate
