#include "server/base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "protocol/utf8.h"

namespace pulsegate {

bool LineBudget::take(Millis now) {
    constexpr Millis minute = 60'000;
    constexpr Millis time_of_a_line = minute / 1000;
    constexpr Millis time_of_all = 50 * time_of_a_line;
    full_at_ = std::max(full_at_, now);
    if (full_at_ + time_of_a_line - now > time_of_all) {
        if (suppressed_++ == 0) report_at_ = std::max(report_at_, now + 1000);
        return false;
    }
    full_at_ += time_of_a_line;
    return true;
}

std::uint64_t LineBudget::suppressed(Millis now) {
    constexpr Millis report_every = 10'000;
    if (suppressed_ == 0 || now < report_at_) return 0;
    report_at_ = now + report_every;
    return std::exchange(suppressed_, 0);
}

bool log_has_room() {
    thread_local LineBudget budget;
    const Millis now = monotonic_now();
    if (!budget.take(now)) return false;
    if (const auto left_out = budget.suppressed(now); left_out > 0)
        spdlog::warn("{} more lines like these were suppressed", left_out);
    return true;
}

namespace {

std::atomic<bool> lines_have_fields{false};

thread_local const LogFields* fields_now = nullptr;

/// True for characters that end a line or a quotation, control a terminal, or reverse the text
/// after them.
bool must_be_escaped(char32_t code) {
    const auto among = [code](char32_t first, char32_t last) {
        return code >= first && code <= last;
    };
    return code < 0x20 || code == U'\'' || code == U'\\' || among(0x7F, 0x9F) ||
           among(0x200E, 0x200F) || among(0x2028, 0x202E) || among(0x2066, 0x2069);
}

}  // namespace

bool log_has_fields() { return lines_have_fields.load(std::memory_order_relaxed); }
void set_log_has_fields(bool has_fields) {
    lines_have_fields.store(has_fields, std::memory_order_relaxed);
}

const LogFields* fields_of_line() { return fields_now; }

LineWithFields::LineWithFields(LogFields fields)
    : fields_(std::move(fields)), before_(std::exchange(fields_now, &fields_)) {}
LineWithFields::~LineWithFields() { fields_now = before_; }

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
