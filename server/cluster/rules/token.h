#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pulsegate {

/// Who owns a partition, as Redis has it: "12 west#0123456789abcdef:3", or "12 -" for nobody. The
/// last number is that of the owner's connection.
struct Token {
    std::string text{};  ///< as it stands there; "": there is none yet
    std::uint64_t epoch = 0;
    std::string owner{};  ///< an incarnation; "": nobody
};

Token parse_token(std::string text);

}  // namespace pulsegate
