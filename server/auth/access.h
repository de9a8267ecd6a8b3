#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// A client that wants to publish or subscribe.
struct Who {
    std::string_view user;
    std::string_view client;  ///< the client id
};

/// Rules about the topics that clients may publish and subscribe to. One rule a line. The first
/// rule that applies decides. If none applies, access is denied.
///
///     rule    allow|deny  read|write|readwrite  [user NAME]  FILTER
///
/// - Words are separated by blanks. A word that contains blanks, or is empty, is put in double
///   quotes, inside of which \" and \\ stand for " and \.
/// - A line that begins with `#` is a comment. There are no comments behind a rule, because
///   `#` is a filter there.
/// - `read` is to subscribe, `write` to publish, by PUBLISH or by a will.
/// - FILTER is a topic filter of MQTT. A leading wildcard does not select topics that begin with
///   `$`, but does select `presence/...`.
/// - `%u` in FILTER stands for the client's user and `%c` for its client id, percent-encoded as one
///   level of a topic like the names in `presence/{user}`: a user named `+` or `a/b` has no more
///   access than one named `bob`. A level has one of them at most, and the filter must not begin
///   with one, or a user named like a first level, say `presence`, could read all of it.
/// - A FILTER `$share/GROUP/...` is about joining the groups of shared subscriptions; `+` stands
///   for any group. Such rules are asked first. If none applies, a client may join if it may read
///   the topics.
/// - Any other `%` is written `%%`, unless two hexadecimal digits follow: `presence/a%2Fb`.
///
/// A subscription is compared with the rules by all topics that it can select, so no wildcard gets
/// around a rule. A rule that covers the whole subscription decides. A `deny` that covers a part of
/// it refuses it. An `allow` that covers a part of it is skipped.
///
/// The checks are const and allocate nothing. Any number of threads may use them.
class AccessRules {
public:
    /// No rules: nobody may do anything.
    AccessRules() = default;

    /// Throws std::runtime_error that names the file, the line and the remedy.
    static AccessRules load(const std::string& path);

    /// The rules that apply without a file: see `default_rules`.
    static AccessRules defaults();

    /// Appends one rule. Returns "", or the rule's mistake and the remedy, without repeating the
    /// rule.
    [[nodiscard]] std::string_view add(std::string_view rule);

    [[nodiscard]] bool may_publish(const Who& who, std::string_view topic) const;

    /// `filter` is a valid filter of SUBSCRIBE. For `$share/group/filter`, the rules for groups are
    /// compared with all of it, and the others with its filter.
    [[nodiscard]] bool may_subscribe(const Who& who, std::string_view filter) const;

    /// The rules, each as a line that `add` takes.
    std::vector<std::string> lines() const;

    std::size_t size() const { return rules_.size(); }
    /// Approximate bytes in memory.
    std::size_t bytes() const;

private:
    enum Access : std::uint8_t { read = 1, write = 2 };

    struct Rule {
        bool applies(const Who& who, Access wanted) const {
            return (access & wanted) != 0 && (!for_one || user == who.user);
        }

        bool allow = false;
        std::uint8_t access = 0;
        bool for_one = false;
        std::string user;
        std::string filter;  ///< with `%u` and `%c` as bytes that no topic has
    };

    bool may_join(const Who& who, std::string_view share) const;

    std::vector<Rule> rules_;
};

/// The rules that apply without a file: clients may publish to any inbox, read only the inbox of
/// their own user, read but not publish presence, and use all other topics. The last rule does not
/// select topics that begin with `$`, so they are denied.
inline constexpr std::string_view default_rules =
    "allow read inbox/%u\n"
    "deny read inbox/#\n"
    "allow read presence/#\n"
    "deny write presence/#\n"
    "allow readwrite #\n";

/// True if `filter` selects every topic that a subscription to `subscription` receives. A
/// subscription that begins with a wildcard receives neither `$` topics nor `presence/...`. Both
/// must be valid filters, and not shared ones.
[[nodiscard]] bool covers(std::string_view filter, std::string_view subscription);

/// True if `filter` selects any of these topics.
[[nodiscard]] bool overlaps(std::string_view filter, std::string_view subscription);

}  // namespace pulsegate
