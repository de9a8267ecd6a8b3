#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// Base64 with padding, as in password files (RFC 4648, section 4). Decoding is strict: it returns
/// nothing for any text that encoding would not write, even if only unused bits of the last
/// character differ.
std::string to_base64(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

/// The alphabet for URLs, without padding, as in JWTs (RFC 7515, section 2). Just as strict.
[[nodiscard]] std::optional<std::string> from_base64url(std::string_view text);

}  // namespace pulsegate
