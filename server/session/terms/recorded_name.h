#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "protocol/utf8.h"

namespace pulsegate {

/// A name that a peer has chosen, for records of events on disk. It is cut, because names of 64 KB
/// would fill a disk quickly.
inline std::string recorded_name(std::string_view name) {
    constexpr std::size_t longest = 1024;
    if (name.size() <= longest) return std::string(name);
    return std::string(first_characters(name, longest)) + "…";
}

}  // namespace pulsegate
