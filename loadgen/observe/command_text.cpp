#include "loadgen/observe/command_text.h"

#include <algorithm>
#include <array>

namespace pulsegate::load {

namespace {

bool names_a_secret(std::string_view option) {
    constexpr std::array<std::string_view, 3> words{"password", "secret", "token"};
    return option.starts_with("-") && std::ranges::any_of(words, [&](std::string_view word) {
               return option.find(word) != std::string_view::npos;
           });
}

}  // namespace

std::string command_text(std::span<const std::string_view> words) {
    std::string text;
    bool is_secret = false;
    for (const std::string_view word : words) {
        if (!text.empty()) text += ' ';
        if (is_secret && !word.starts_with("-")) {
            text += "***";
            is_secret = false;
            continue;
        }
        const auto equals = word.find('=');
        const auto option = word.substr(0, equals);
        is_secret = names_a_secret(option) && equals == std::string_view::npos;
        text += option;
        if (equals != std::string_view::npos)
            text += names_a_secret(option) ? "=***" : word.substr(equals);
    }
    return text;
}

}  // namespace pulsegate::load
