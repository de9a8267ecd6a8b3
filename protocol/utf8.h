#pragma once

#include <cstddef>
#include <string_view>

namespace pulsegate {

/// Well-formed UTF-8 without U+0000 (MQTT 5.0, section 1.5.4): overlong forms, surrogates and
/// code points past U+10FFFF are not.
bool valid_utf8(std::string_view text);

/// Does this UTF-8 text have a control character: U+0001 to U+001F, or U+007F to U+009F? A receiver
/// may treat it as malformed (MQTT 5.0, section 1.5.4).
bool has_control_character(std::string_view text);

/// The character that a text begins with.
struct Character {
    char32_t code;
    std::size_t size;  ///< in bytes; 0 if the text does not begin with a well-formed character
};
Character first_character(std::string_view text);

/// The longest beginning of this UTF-8 text that has whole characters and at most `most` bytes.
std::string_view first_characters(std::string_view text, std::size_t most);

}  // namespace pulsegate
