#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// Base64 with padding, as in password files (RFC 4648, section 4). Decoding is strict: a text that
/// encoding would not have written, down to the unused bits of the last character, gives nothing.
std::string to_base64(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

/// The alphabet for URLs, without padding, as in JWTs (RFC 7515, section 2). As strict.
[[nodiscard]] std::optional<std::string> from_base64url(std::string_view text);

}  // namespace pulsegate
