#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pulsegate {

/// The owner of a partition in Redis: "12 west#0123456789abcdef:3", or "12 -" if no node owns it.
/// The last number is the owner's connection.
struct Token {
    std::string text{};  ///< the text in Redis; "": there is no token yet
    std::uint64_t epoch = 0;
    std::string owner{};  ///< an incarnation; "": no node
};

Token parse_token(std::string text);

}  // namespace pulsegate
