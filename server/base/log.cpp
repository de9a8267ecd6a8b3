#include "server/base/log.h"

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

}  // namespace pulsegate

fmt::format_context::iterator fmt::formatter<pulsegate::Quoted>::format(
    pulsegate::Quoted quoted, format_context& context) const {
    constexpr std::size_t longest = 64;
    const std::string_view text = quoted.text;
    auto out = context.out();
    *out++ = '\'';
    for (const unsigned char c : text.substr(0, longest)) {
        if (c < 0x20 || c == 0x7F || c == '\'' || c == '\\')
            out = fmt::format_to(out, "\\x{:02x}", c);
        else
            *out++ = static_cast<char>(c);
    }
    *out++ = '\'';
    if (text.size() > longest) out = fmt::format_to(out, "... ({} bytes)", text.size());
    return out;
}
