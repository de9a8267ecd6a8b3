#include "server/message/topics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>

#include "protocol/topic.h"
#include "protocol/utf8.h"

namespace pulsegate {

namespace {

constexpr std::string_view presence_prefix = "presence/";
constexpr std::string_view inbox_prefix = "inbox/";
constexpr std::string_view room_prefix = "room/";
constexpr std::string_view delayed_prefix = "$delayed/";
constexpr std::string_view cancel_prefix = "cancel/";

/// A character that a user's name may have but a topic level may not, and its percent-encoding.
struct Escape {
    char character;
    std::string_view written;
};
constexpr Escape escapes[] = {{'/', "%2F"}, {'+', "%2B"}, {'#', "%23"}, {'%', "%25"}};

/// The encoding of the character; nothing if it needs none.
std::string_view escape_of(char character) {
    const auto escape = std::ranges::find(escapes, character, &Escape::character);
    return escape == std::end(escapes) ? std::string_view{} : escape->written;
}

/// Tells for every character whether it needs an escape, because names are scanned for each
/// message.
constexpr auto needing_escape = [] {
    std::array<bool, 256> needing{};
    for (const Escape& escape : escapes)
        needing[static_cast<unsigned char>(escape.character)] = true;
    return needing;
}();

bool needs_escape(char character) { return needing_escape[static_cast<unsigned char>(character)]; }

/// Decodes a level. Each name has one encoding only, so "%41" names no user.
std::optional<std::string> user_written(std::string_view level) {
    if (std::ranges::none_of(level, needs_escape)) return std::string(level);  // as mostly
    std::string user;
    while (!level.empty()) {
        const auto* const special = std::ranges::find_if(level, needs_escape);
        const auto plain = static_cast<std::size_t>(special - level.begin());
        user += level.substr(0, plain);
        level.remove_prefix(plain);
        if (level.empty()) break;
        const auto escape = std::ranges::find(escapes, level.substr(0, 3), &Escape::written);
        if (escape == std::end(escapes)) return std::nullopt;
        user += escape->character;
        level.remove_prefix(escape->written.size());
    }
    return user;
}

std::optional<std::string> user_after(std::string_view prefix, std::string_view topic) {
    if (!topic.starts_with(prefix)) return std::nullopt;
    return user_written(topic.substr(prefix.size()));
}

/// `prefix` and the level behind it, of a topic that begins so.
std::optional<std::string_view> topic_below(std::string_view prefix, std::string_view topic) {
    if (!topic.starts_with(prefix)) return std::nullopt;
    return topic.substr(0, topic.find('/', prefix.size()));
}

bool gateways_own(std::string_view topic) {
    return server_topic(topic) || topic.starts_with(presence_prefix);
}

}  // namespace

std::string topic_level(std::string_view user) {
    std::string level;
    for (const char c : user) {
        const auto escape = escape_of(c);
        if (escape.empty())
            level += c;
        else
            level += escape;
    }
    return level;
}

bool is_topic_level(std::string_view level, std::string_view user) {
    for (const char& c : user) {
        auto written = escape_of(c);
        if (written.empty()) written = {&c, 1};
        if (!level.starts_with(written)) return false;
        level.remove_prefix(written.size());
    }
    return level.empty();
}

std::string presence_topic(std::string_view user) {
    return std::string(presence_prefix) + topic_level(user);
}

std::optional<std::string> presence_user(std::string_view filter) {
    if (filter.ends_with("/#")) filter.remove_suffix(2);
    return user_after(presence_prefix, filter);
}

std::optional<std::string_view> presence_of(std::string_view topic) {
    return topic_below(presence_prefix, topic);
}

bool selects_all_presence(std::string_view filter) {
    if (!filter.starts_with(presence_prefix)) return false;
    filter.remove_prefix(presence_prefix.size());
    return filter == "+" || filter == "#" || filter == "+/#";
}

std::string inbox_topic(std::string_view user) {
    return std::string(inbox_prefix) + topic_level(user);
}

std::optional<std::string> inbox_user(std::string_view topic) {
    return user_after(inbox_prefix, topic);
}

bool names_no_inbox(std::string_view topic) {
    if (topic.size() <= longest_name) return false;  // as nearly always
    const auto user = inbox_user(topic);
    return user && user->size() > longest_name;
}

std::string room_topic(std::string_view room) {
    return std::string(room_prefix) + topic_level(room);
}

std::optional<std::string_view> room_of(std::string_view topic) {
    return topic_below(room_prefix, topic);
}

/// Levels that are no name's encoding stand for themselves.
std::string room_name(std::string_view topic) {
    return user_after(room_prefix, topic).value_or(std::string(topic.substr(room_prefix.size())));
}

bool is_chat_topic(std::string_view topic) {
    return topic.starts_with(inbox_prefix) || topic.starts_with(room_prefix);
}

std::optional<DelayedTopic> delayed_topic(std::string_view topic) {
    if (!topic.starts_with(delayed_prefix)) return std::nullopt;
    topic.remove_prefix(delayed_prefix.size());
    if (topic.starts_with(cancel_prefix))
        return DelayedTopic{.cancel = topic.substr(cancel_prefix.size())};
    DelayedTopic delayed;
    const auto [end, error] =
        std::from_chars(topic.data(), topic.data() + topic.size(), delayed.when);
    const auto digits = static_cast<std::size_t>(end - topic.data());
    if (error == std::errc() && digits < topic.size() && topic[digits] == '/')
        delayed.topic = topic.substr(digits + 1);
    return delayed;
}

bool is_topic_name(std::string_view text) {
    return valid_utf8(text) && !has_control_character(text) && valid_topic_name(text);
}

bool is_plain_filter(std::string_view text) {
    return valid_topic_filter(text) && !shared_filter(text);
}

bool reserved_topic(std::string_view topic) { return gateways_own(topic); }

bool hidden_from_leading_wildcard(std::string_view topic) { return gateways_own(topic); }

}  // namespace pulsegate
