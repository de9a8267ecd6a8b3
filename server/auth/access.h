#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// Whose client asks.
struct Who {
    std::string_view user;
    std::string_view client;  ///< the client id
};

/// Who may publish and subscribe to what. One rule a line; the first that applies decides, and
/// where none applies the answer is no.
///
///     rule    allow|deny  read|write|readwrite  [user NAME]  FILTER
///
/// - Words are separated by blanks. One that contains blanks, or is empty, is put in double quotes,
///   inside of which \" and \\ stand for " and \.
/// - A line whose first character is `#` is a comment. There are none behind a rule, because `#`
///   is a filter there.
/// - `read` is to subscribe, `write` to publish, also by a will.
/// - FILTER is one of MQTT's. A leading wildcard does not select topics that begin with `$`, but
///   does select `presence/...`.
/// - `%u` in FILTER is the asking user's name and `%c` the client id, percent-encoded as one level
///   of a topic like the names in `presence/{user}`: a user named `+` or `a/b` gets no further than
///   one named `bob`. A level has one of them at most, and the filter must not begin with it, or a
///   user named like a first level, say `presence`, would have it all.
/// - Any other `%` is written `%%`, unless two hexadecimal digits follow: `presence/a%2Fb`.
///
/// Subscriptions are judged by everything that they can select, so that no wildcard gets around a
/// rule: rule by rule, one that covers the whole subscription decides; a `deny` that covers some of
/// it refuses; an `allow` that covers some of it is passed over.
///
/// Asking is const, allocates nothing, and many threads may do it.
class AccessRules {
public:
    /// No rules: nobody may do anything.
    AccessRules() = default;

    /// Throws std::runtime_error that names the file, the line and the remedy.
    static AccessRules load(const std::string& path);

    /// What holds without a file: see `default_rules`.
    static AccessRules defaults();

    /// Adds one rule behind the others. Returns what is wrong with it, and the remedy, without
    /// repeating it; or nothing.
    std::string_view add(std::string_view rule);

    bool may_publish(const Who& who, std::string_view topic) const;

    /// The filter, valid, as SUBSCRIBE has it: `$share/group/filter` is judged by its filter.
    bool may_subscribe(const Who& who, std::string_view filter) const;

    std::size_t size() const { return rules_.size(); }

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
        std::string filter;  ///< `%u` and `%c` are bytes in it that no topic has
    };

    std::vector<Rule> rules_;
};

/// The rules without a file, as a file would have them: publish to any inbox, read only one's own;
/// leave presence to the gateway; everything else is free. Topics that begin with `$` are not
/// selected by the last rule, so nobody has them.
inline constexpr std::string_view default_rules =
    "allow read inbox/%u\n"
    "deny read inbox/#\n"
    "allow read presence/#\n"
    "deny write presence/#\n"
    "allow readwrite #\n";

/// Does `filter` select every topic that a subscription to `subscription` is sent? To one that
/// begins with a wildcard the gateway sends neither `$` topics nor `presence/...`. Both are valid
/// filters, and not shared ones.
bool covers(std::string_view filter, std::string_view subscription);

/// Does it select any of them?
bool overlaps(std::string_view filter, std::string_view subscription);

}  // namespace pulsegate
