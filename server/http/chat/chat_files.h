#pragma once

#include <string_view>

namespace pulsegate {

// The files in chat/, as they were when the gateway was built.
extern const std::string_view chat_html;
extern const std::string_view chat_css;
extern const std::string_view chat_js;
extern const std::string_view mqtt_js;

}  // namespace pulsegate
