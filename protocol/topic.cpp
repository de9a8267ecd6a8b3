#include "protocol/topic.h"

#include <cstdint>
#include <cstring>

namespace pulsegate {

namespace {

constexpr std::size_t longest_text = 65'535;
constexpr std::string_view share_prefix = "$share/";

/// Eight bytes that are all ASCII and none of them zero, as nearly all of a chat's text is.
bool plain_block(const char* at) {
    constexpr std::uint64_t ones = 0x0101010101010101;
    constexpr std::uint64_t high_bits = 0x8080808080808080;
    std::uint64_t block;
    std::memcpy(&block, at, sizeof block);
    // Subtracting one sets the high bit of a zero byte; a borrow only ever adds a false alarm.
    return ((block | (block - ones)) & high_bits) == 0;
}

/// The length of the well-formed character at `at`, or 0 (Unicode 15, table 3-7, without U+0000).
std::size_t character(const unsigned char* at, std::size_t left) {
    const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
        return at[i] >= low && at[i] <= high;
    };
    const unsigned lead = at[0];
    if (lead < 0x80) return lead != 0 ? 1 : 0;
    if (lead < 0xC2) return 0;  // a stray continuation, or an overlong form of ASCII
    if (lead < 0xE0) return left >= 2 && continues(1) ? 2 : 0;
    if (lead < 0xF0) {
        const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;   // overlong below
        const unsigned high = lead == 0xED ? 0x9F : 0xBF;  // surrogates above
        return left >= 3 && continues(1, low, high) && continues(2) ? 3 : 0;
    }
    if (lead > 0xF4) return 0;
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;   // overlong below
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;  // past U+10FFFF above
    return left >= 4 && continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
}

bool valid_text(std::string_view text) {
    return !text.empty() && text.size() <= longest_text && valid_utf8(text);
}

/// A wildcard fills its whole level, and `#` is the last one.
bool wildcards_in_place(std::string_view filter) {
    TopicLevels levels(filter);
    bool after_last = false;
    for (std::string_view level; levels.next(level);) {
        if (after_last) return false;
        if (level.size() > 1 && has_wildcard(level)) return false;
        after_last = level == "#";
    }
    return true;
}

}  // namespace

bool valid_utf8(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        if (end - at >= 8 && plain_block(at)) {
            at += 8;
            continue;
        }
        const std::size_t size = character(reinterpret_cast<const unsigned char*>(at),
                                           static_cast<std::size_t>(end - at));
        if (size == 0) return false;
        at += size;
    }
    return true;
}

bool has_wildcard(std::string_view filter) {
    return filter.find('+') != std::string_view::npos || filter.find('#') != std::string_view::npos;
}

bool valid_topic_name(std::string_view topic) { return valid_text(topic) && !has_wildcard(topic); }

bool valid_topic_filter(std::string_view filter) {
    if (!valid_text(filter)) return false;
    if (!filter.starts_with(share_prefix)) return wildcards_in_place(filter);

    const auto shared = shared_filter(filter);
    return shared && !shared->group.empty() && !has_wildcard(shared->group) &&
           !shared->filter.empty() && wildcards_in_place(shared->filter);
}

std::optional<SharedFilter> shared_filter(std::string_view filter) {
    if (!filter.starts_with(share_prefix)) return std::nullopt;
    filter.remove_prefix(share_prefix.size());
    const auto slash = filter.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    return SharedFilter{filter.substr(0, slash), filter.substr(slash + 1)};
}

bool topic_matches(std::string_view filter, std::string_view topic) {
    if (topic.starts_with('$') && !filter.starts_with('$')) return false;
    TopicLevels wanted(filter);
    TopicLevels levels(topic);
    std::string_view level;
    for (std::string_view want; wanted.next(want);) {
        // Asked before the topic's next level: "sport/#" selects "sport", too (section 4.7.1.2).
        if (want == "#") return true;
        if (!levels.next(level)) return false;
        if (want != "+" && want != level) return false;
    }
    return !levels.next(level);
}

}  // namespace pulsegate
