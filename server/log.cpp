#include "server/log.h"

#include <cctype>
#include <iterator>

#include "server/clock.h"

namespace pulsegate {

std::string quoted(std::string_view text) {
    constexpr std::size_t longest = 64;
    std::string out = "'";
    for (const unsigned char c : text.substr(0, longest)) {
        if (c < 0x20 || c == 0x7F || c == '\'' || c == '\\')
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", c);
        else
            out += static_cast<char>(c);
    }
    out += '\'';
    if (text.size() > longest)
        fmt::format_to(std::back_inserter(out), "... ({} bytes)", text.size());
    return out;
}

bool log_has_room() {
    constexpr int lines_a_second = 50;
    thread_local Millis second = 0;
    thread_local int lines = 0;

    const Millis now = monotonic_now() / 1000;
    if (now != second) {
        if (lines > lines_a_second)
            spdlog::warn("{} more lines like these were held back in one second",
                         lines - lines_a_second);
        second = now;
        lines = 0;
    }
    return ++lines <= lines_a_second;
}

}  // namespace pulsegate
