#include "protocol/topic.h"

#include <cstddef>

#include "protocol/utf8.h"

namespace pulsegate {

namespace {

constexpr std::size_t longest_text = 65'535;

bool valid_text(std::string_view text) {
    return !text.empty() && text.size() <= longest_text && valid_utf8(text);
}

}  // namespace

bool has_wildcard(std::string_view filter) {
    return filter.find('+') != std::string_view::npos || filter.find('#') != std::string_view::npos;
}

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
    if (server_topic(topic) && !server_topic(filter)) return false;
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
