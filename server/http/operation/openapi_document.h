#pragma once

#include <string_view>

namespace pulsegate {

/// The text of openapi.json when the gateway was built.
extern const std::string_view openapi_document;

}  // namespace pulsegate
