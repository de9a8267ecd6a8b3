#pragma once

#include <optional>
#include <string_view>

namespace pulsegate {

/// A topic to publish to: 1 to 65,535 bytes, no wildcard, no U+0000 (section 4.7.3).
bool valid_topic_name(std::string_view topic);

/// A filter to subscribe to: `+` fills a whole level, `#` the last one (section 4.7.1); for a
/// shared subscription (`$share/group/filter`, section 4.8.2) group and filter are both checked.
bool valid_topic_filter(std::string_view filter);

bool has_wildcard(std::string_view filter);

/// Does each `+` fill a whole level, and `#` the last level (section 4.7.1)?
bool wildcards_in_place(std::string_view filter);

inline bool begins_with_wildcard(std::string_view filter) {
    return filter.starts_with('+') || filter.starts_with('#');
}

/// Topics that begin with `$` belong to the server: filters that begin with a wildcard do not match
/// them (section 4.7.2).
inline bool server_topic(std::string_view topic) { return topic.starts_with('$'); }

/// Does the filter match the topic? Both must be valid, and the filter must not be a shared one.
bool topic_matches(std::string_view filter, std::string_view topic);

/// The prefix of a shared subscription's filter.
inline constexpr std::string_view share_prefix = "$share/";

/// The two parts of `$share/group/filter`, or nothing if the filter is not a shared one.
struct SharedFilter {
    std::string_view group;
    std::string_view filter;
};
std::optional<SharedFilter> shared_filter(std::string_view filter);

/// Splits a topic or filter into its levels, one level per call: "a//b" gives "a", "", "b".
class TopicLevels {
public:
    explicit TopicLevels(std::string_view topic) : rest_(topic) {}

    /// The next level; false after the last.
    bool next(std::string_view& level) {
        if (done_) return false;
        const auto slash = rest_.find('/');
        level = rest_.substr(0, slash);
        done_ = slash == std::string_view::npos;
        if (!done_) rest_.remove_prefix(slash + 1);
        return true;
    }

private:
    std::string_view rest_;
    bool done_ = false;
};

}  // namespace pulsegate
