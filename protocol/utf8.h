#pragma once

#include <string_view>

namespace pulsegate {

/// Well-formed UTF-8 without U+0000 (MQTT 5.0, section 1.5.4): overlong forms, surrogates and
/// code points past U+10FFFF are not.
bool valid_utf8(std::string_view text);

}  // namespace pulsegate
