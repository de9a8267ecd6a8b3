#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace pulsegate {

// A connection between nodes begins with lines of words, separated by single spaces.

/// Cuts the first word off the line; "" if there is none.
inline std::string_view next_word(std::string_view& line) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    return word;
}

/// Nothing if the word is not a number of this type.
template <class Number>
std::optional<Number> word_number(std::string_view word) {
    Number number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) return {};
    return number;
}

}  // namespace pulsegate
