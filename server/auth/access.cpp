#include "server/auth/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "protocol/topic.h"
#include "protocol/utf8.h"
#include "server/auth/secret_file.h"
#include "server/base/text/lines.h"
#include "server/message/topics.h"

namespace pulsegate {

namespace {

// Placeholders for `%u` and `%c` in a rule's filter: bytes that UTF-8 does not have.
constexpr char user_mark = '\xFE';
constexpr char client_mark = '\xFF';
constexpr std::string_view marks = "\xFE\xFF";

bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// No topic is empty, so "#" selects the same topics as "+/#", and "/#" the same as "/+/#".
std::string_view spelled_out(std::string_view filter) {
    return filter == "#" ? "+/#" : filter == "/#" ? "/+/#" : filter;
}

/// Does `level`, of a topic or a subscription, match the level `wanted` of a rule? A rule's `+`
/// matches any level; only wildcards match the wildcards of a subscription.
bool fills(std::string_view level, std::string_view wanted, const Who& who) {
    if (wanted == "+") return true;
    const auto mark = wanted.find_first_of(marks);
    if (mark == std::string_view::npos) return level == wanted;

    const auto before = wanted.substr(0, mark);
    const auto behind = wanted.substr(mark + 1);
    if (level.size() < before.size() + behind.size()) return false;
    if (!level.starts_with(before) || !level.ends_with(behind)) return false;
    level = level.substr(before.size(), level.size() - before.size() - behind.size());
    return is_topic_level(level, wanted[mark] == user_mark ? who.user : who.client);
}

/// `topic_matches` for a rule's filter.
bool selects(std::string_view filter, std::string_view topic, const Who& who) {
    if (server_topic(topic) && begins_with_wildcard(filter)) return false;
    TopicLevels wanted(filter);
    TopicLevels levels(topic);
    std::string_view level;
    for (std::string_view want; wanted.next(want);) {
        if (want == "#") return true;
        if (!levels.next(level) || !fills(level, want, who)) return false;
    }
    return !levels.next(level);
}

bool covers(std::string_view filter, std::string_view subscription, const Who& who) {
    if (server_topic(subscription) && begins_with_wildcard(filter)) return false;
    TopicLevels wanted(spelled_out(filter));
    TopicLevels levels(spelled_out(subscription));
    std::string_view level;
    for (std::string_view want; wanted.next(want);) {
        if (want == "#") return true;
        if (!levels.next(level) || level == "#" || !fills(level, want, who)) return false;
    }
    return !levels.next(level);
}

bool overlaps(std::string_view filter, std::string_view subscription, const Who& who) {
    if (server_topic(subscription) && begins_with_wildcard(filter)) return false;
    if (begins_with_wildcard(subscription)) {
        if (server_topic(filter)) return false;
        // The subscription is sent nothing below "presence", but there may be a topic "presence"
        // itself.
        if (selects(filter.substr(0, filter.find('/')), presence_level, who) &&
            !begins_with_wildcard(filter))
            return selects(filter, presence_level, who) &&
                   topic_matches(subscription, presence_level);
    }
    TopicLevels wanted(spelled_out(filter));
    TopicLevels levels(spelled_out(subscription));
    std::string_view level;
    for (std::string_view want; wanted.next(want);) {
        if (want == "#") return true;
        if (!levels.next(level)) return false;
        if (level == "#") return true;
        if (level != "+" && !fills(level, want, who)) return false;
    }
    return !levels.next(level) || level == "#";
}

/// Removes the next word from the line; nothing at the end of the line. Sets `unfinished` if a
/// quote does not end.
std::optional<std::string> take_word(std::string_view& line, bool& unfinished) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty()) return std::nullopt;
    if (line.front() != '"') {
        const auto end = std::min(line.find_first_of(" \t"), line.size());
        std::string word(line.substr(0, end));
        line.remove_prefix(end);
        return word;
    }
    std::string word;
    for (std::size_t i = 1; i < line.size(); ++i) {
        if (line[i] == '"') {
            line.remove_prefix(i + 1);
            unfinished = !line.empty() && line.front() != ' ' && line.front() != '\t';
            return word;
        }
        if (line[i] == '\\' && i + 1 < line.size()) ++i;
        word += line[i];
    }
    unfinished = true;
    return word;
}

/// Replaces `%u` and `%c` by marks. Returns the mistake in the filter, or "".
std::string_view put_marks(std::string& filter) {
    std::string marked;
    for (std::size_t i = 0; i < filter.size(); ++i) {
        const std::string_view next = std::string_view(filter).substr(i + 1, 2);
        if (filter[i] != '%') {
            marked += filter[i];
        } else if (next.starts_with('u') || next.starts_with('c') || next.starts_with('%')) {
            marked += next[0] == 'u' ? user_mark : next[0] == 'c' ? client_mark : '%';
            ++i;
        } else if (next.size() == 2 && is_hex(next[0]) && is_hex(next[1])) {
            marked += '%';
        } else {
            return "has a lone '%'; write %u for the user, %c for the client id, %% for a '%'";
        }
    }
    filter = std::move(marked);
    return {};
}

bool is_mark(char c) { return c == user_mark || c == client_mark; }

bool is_for_groups(std::string_view filter) { return filter.starts_with(share_prefix); }

std::string_view wrong_with_filter(std::string& filter) {
    if (!valid_utf8(filter)) return "is not UTF-8; save the file as UTF-8";
    if (const auto wrong = put_marks(filter); !wrong.empty()) return wrong;

    std::string filled = filter;
    std::replace_if(filled.begin(), filled.end(), is_mark, 'x');
    if (is_for_groups(filter)) {
        const auto group_ends = filled.find('/', share_prefix.size());
        if (group_ends == filled.npos || group_ends == share_prefix.size())
            return "has no group and filter; write $share/GROUP/FILTER";
        filled.erase(0, group_ends + 1);
    }
    if (!valid_topic_filter(filled))
        return "has no valid topic filter; '+' fills a whole level, '#' the last one";
    if (is_mark(filter.front()))
        return "begins with %u or %c, so that it would select any topic that begins with a user's "
               "name; put a level before it, as in 'users/%u/#'";
    TopicLevels levels(filter);
    for (std::string_view level; levels.next(level);) {
        if (std::count_if(level.begin(), level.end(), is_mark) > 1)
            return "has two names in one level, which is ambiguous; put a '/' between %u and %c";
    }
    return {};
}

std::string in_rule_quotes(std::string_view word) {
    std::string quoted = "\"";
    for (const char c : word) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + '"';
}

std::string without_marks(std::string_view filter) {
    std::string text;
    for (const char c : filter) {
        if (c == user_mark)
            text += "%u";
        else if (c == client_mark)
            text += "%c";
        else if (c == '%')
            text += "%%";
        else
            text += c;
    }
    return text;
}

constexpr std::string_view grammar =
    "is not a rule; write: allow|deny read|write|readwrite [user NAME] FILTER (names with blanks "
    "in double quotes)";

}  // namespace

bool covers(std::string_view filter, std::string_view subscription) {
    return covers(filter, subscription, {});
}

bool overlaps(std::string_view filter, std::string_view subscription) {
    return overlaps(filter, subscription, {});
}

std::string_view AccessRules::add(std::string_view rule) {
    std::vector<std::string> words;
    bool unfinished = false;
    while (auto word = take_word(rule, unfinished)) {
        if (unfinished) return "has a quote that does not end its word; write \"a name\"";
        words.push_back(std::move(*word));
    }
    if (words.size() != 3 && words.size() != 5) return grammar;
    if (words.size() == 5 && words[2] != "user") return grammar;
    if (words[0] != "allow" && words[0] != "deny") return grammar;

    Rule added;
    added.allow = words[0] == "allow";
    if (words[1] == "read")
        added.access = read;
    else if (words[1] == "write")
        added.access = write;
    else if (words[1] == "readwrite")
        added.access = read | write;
    else
        return grammar;
    if (words.size() == 5) {
        added.for_one = true;
        added.user = std::move(words[3]);
        if (added.user.empty()) return "is for a user without a name; write user NAME";
        if (!valid_utf8(added.user)) return "is not UTF-8; save the file as UTF-8";
    }
    added.filter = std::move(words.back());
    if (const auto wrong = wrong_with_filter(added.filter); !wrong.empty()) return wrong;
    if (is_for_groups(added.filter) && (added.access & write))
        return "is for a group, which can only be read; write: deny read $share/GROUP/FILTER";
    rules_.push_back(std::move(added));
    return {};
}

std::vector<std::string> AccessRules::lines() const {
    std::vector<std::string> lines;
    lines.reserve(rules_.size());
    for (const Rule& rule : rules_) {
        const char* const access = rule.access == read    ? "read"
                                   : rule.access == write ? "write"
                                                          : "readwrite";
        lines.push_back(fmt::format("{} {} {}{}", rule.allow ? "allow" : "deny", access,
                                    rule.for_one ? "user " + in_rule_quotes(rule.user) + " " : "",
                                    in_rule_quotes(without_marks(rule.filter))));
    }
    return lines;
}

namespace {

AccessRules parse(std::string_view text, const std::string& source) {
    AccessRules rules;
    for (Lines lines(text); lines.next();) {
        auto line = lines.line();
        if (line_with_null(line) > 0)
            throw std::runtime_error(fmt::format(
                "{}:{}: has a null character; save the file as UTF-8", source, lines.number()));
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        if (line.empty() || line.starts_with('#')) continue;
        if (const auto wrong = rules.add(line); !wrong.empty())
            throw std::runtime_error(
                fmt::format("{}:{}: '{}' {}", source, lines.number(), line, wrong));
    }
    return rules;
}

}  // namespace

AccessRules AccessRules::load(const std::string& path) {
    return parse(read_secret_file(path).text, path);
}

AccessRules AccessRules::defaults() { return parse(default_rules, "default rules"); }

std::size_t AccessRules::bytes() const {
    std::size_t sum = sizeof *this;
    for (const Rule& rule : rules_) sum += sizeof rule + rule.user.size() + rule.filter.size();
    return sum;
}

bool AccessRules::may_publish(const Who& who, std::string_view topic) const {
    for (const Rule& rule : rules_)
        if (rule.applies(who, write) && selects(rule.filter, topic, who)) return rule.allow;
    return false;
}

/// A member of a group takes messages from the other members. So a rule for the group can refuse
/// a client that may read the topics.
bool AccessRules::may_join(const Who& who, std::string_view share) const {
    for (const Rule& rule : rules_) {
        if (!is_for_groups(rule.filter) || !rule.applies(who, read)) continue;
        if (covers(rule.filter, share, who)) return rule.allow;
        if (!rule.allow && overlaps(rule.filter, share, who)) return false;
    }
    return true;
}

bool AccessRules::may_subscribe(const Who& who, std::string_view filter) const {
    if (const auto shared = shared_filter(filter)) {
        if (!may_join(who, filter)) return false;
        filter = shared->filter;
    }
    for (const Rule& rule : rules_) {
        if (!rule.applies(who, read)) continue;
        if (covers(rule.filter, filter, who)) return rule.allow;
        if (!rule.allow && overlaps(rule.filter, filter, who)) return false;
    }
    return false;
}

}  // namespace pulsegate
