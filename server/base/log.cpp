#include "server/base/log.h"

#include <algorithm>
#include <cstdint>

#include "protocol/utf8.h"
#include "server/base/clock.h"

namespace pulsegate {

bool log_has_room() {
    constexpr int lines_a_second = 50;
    thread_local Millis second = 0;
    thread_local int lines = 0;

    const Millis now = monotonic_now() / 1000;
    if (now != second) {
        if (lines > lines_a_second)
            spdlog::warn("{} more lines like these were suppressed in one second",
                         lines - lines_a_second);
        second = now;
        lines = 0;
    }
    return ++lines <= lines_a_second;
}

namespace {

/// What ends a line or a quotation, steers a terminal, or turns the text that follows around.
bool must_be_escaped(char32_t code) {
    const auto among = [code](char32_t first, char32_t last) {
        return code >= first && code <= last;
    };
    return code < 0x20 || code == U'\'' || code == U'\\' || among(0x7F, 0x9F) ||
           among(0x200E, 0x200F) || among(0x2028, 0x202E) || among(0x2066, 0x2069);
}

}  // namespace

}  // namespace pulsegate

fmt::format_context::iterator fmt::formatter<pulsegate::Quoted>::format(
    pulsegate::Quoted quoted, format_context& context) const {
    constexpr std::size_t longest = 64;
    const std::string_view text = quoted.text;
    auto out = context.out();
    *out++ = '\'';
    for (auto rest = pulsegate::first_characters(text, longest); !rest.empty();) {
        const auto [code, size] = pulsegate::first_character(rest);
        if (size == 0)
            out = fmt::format_to(out, "\\x{:02x}", static_cast<unsigned char>(rest.front()));
        else if (!pulsegate::must_be_escaped(code))
            out = std::copy_n(rest.begin(), size, out);
        else if (code < 0x80)
            out = fmt::format_to(out, "\\x{:02x}", static_cast<std::uint32_t>(code));
        else
            out = fmt::format_to(out, "\\u{:04x}", static_cast<std::uint32_t>(code));
        rest.remove_prefix(std::max<std::size_t>(size, 1));
    }
    *out++ = '\'';
    if (text.size() > longest) out = fmt::format_to(out, "... ({} bytes)", text.size());
    return out;
}
