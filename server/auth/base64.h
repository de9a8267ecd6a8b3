#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// Base64 with padding, as password files have it (RFC 4648, section 4). Decoding is strict: what
/// encoding would not have written, down to the unused bits of the last character, is nothing.
std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

/// The alphabet for URLs, without padding, as tokens have it (RFC 7515, section 2). As strict.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace pulsegate
