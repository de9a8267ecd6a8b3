#include "server/auth/access.h"

#include <doctest/doctest.h>

#include <bitset>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "protocol/topic.h"
#include "server/message/topics.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

constexpr Who bob{"bob", "bob-phone"};

AccessRules rules(const std::vector<std::string>& lines) {
    AccessRules rules;
    for (const auto& line : lines) CHECK_MESSAGE(rules.add(line).empty(), line);
    return rules;
}

std::string_view wrong_with(std::string_view rule) { return AccessRules().add(rule); }

/// Every topic or filter of up to `most` levels.
std::vector<std::string> all(const std::vector<std::string>& levels, int most) {
    std::vector<std::string> found = levels;
    std::vector<std::string> longest = levels;
    for (int count = 2; count <= most; ++count) {
        std::vector<std::string> longer;
        for (const auto& begin : longest)
            for (const auto& level : levels) longer.push_back(begin + "/" + level);
        found.insert(found.end(), longer.begin(), longer.end());
        longest = std::move(longer);
    }
    return found;
}

/// A small world: its topics have a level ("z") that no filter names and one more level than
/// filters have, so that whatever two filters of any world do to each other can be seen in it.
struct World {
    std::vector<std::string> topics;
    std::vector<std::string> filters;

    World() {
        for (auto& topic : all({"a", "z", "", "$s", "presence"}, 4))
            if (valid_topic_name(topic)) topics.push_back(std::move(topic));
        for (auto& filter : all({"a", "", "$s", "presence", "+", "#"}, 3))
            if (valid_topic_filter(filter)) filters.push_back(std::move(filter));
    }

    using Topics = std::bitset<800>;

    Topics selected(const std::string& filter) const {
        Topics selected;
        for (std::size_t i = 0; i < topics.size(); ++i)
            selected[i] = topic_matches(filter, topics[i]);
        return selected;
    }

    /// What the gateway sends to a subscription.
    Topics sent(const std::string& filter) const {
        Topics sent = selected(filter);
        if (filter[0] == '+' || filter[0] == '#')
            for (std::size_t i = 0; i < topics.size(); ++i)
                if (topics[i].starts_with("presence/")) sent[i] = false;
        return sent;
    }
};

struct Line {
    bool allow;
    std::string filter;
};

/// The answer for one topic, by the first rule alone.
bool may_read(const std::vector<Line>& lines, const std::string& topic) {
    for (const auto& [allow, filter] : lines)
        if (topic_matches(filter, topic)) return allow;
    return false;
}

}  // namespace

TEST_CASE("covers and overlaps are what comparing all topics finds") {
    const World world;
    REQUIRE(world.topics.size() <= World::Topics().size());
    std::vector<World::Topics> selected;
    for (const auto& filter : world.filters) selected.push_back(world.selected(filter));
    int covered = 0;
    int overlapping = 0;
    for (const auto& subscription : world.filters) {
        const auto sent = world.sent(subscription);
        for (std::size_t i = 0; i < world.filters.size(); ++i) {
            const auto& filter = world.filters[i];
            const bool all = (sent & ~selected[i]).none();
            const bool some = (sent & selected[i]).any();
            covered += all;
            overlapping += some;
            if (covers(filter, subscription) != all)
                FAIL_CHECK(filter << " covers " << subscription << ": " << all);
            if (overlaps(filter, subscription) != some)
                FAIL_CHECK(filter << " overlaps " << subscription << ": " << some);
        }
    }
    CHECK(covered > 1'000);
    CHECK(overlapping > 4'000);
}

TEST_CASE("no subscription gets a topic that the rules don't let its client read") {
    const World world;
    std::mt19937 random(2'311);
    std::vector<World::Topics> sent;
    for (const auto& filter : world.filters) sent.push_back(world.sent(filter));
    int granted = 0;
    for (int round = 0; round < 300; ++round) {
        std::vector<Line> lines;
        AccessRules rules;
        for (auto left = 1 + random() % 6; left > 0; --left) {
            lines.push_back({random() % 2 == 0, world.filters[random() % world.filters.size()]});
            const auto& [allow, filter] = lines.back();
            CHECK(rules.add((allow ? "allow read \"" : "deny read \"") + filter + "\"").empty());
        }
        World::Topics readable;
        for (std::size_t i = 0; i < world.topics.size(); ++i) {
            readable[i] = may_read(lines, world.topics[i]);
            // A subscription to a single topic is decided like a message to it.
            CHECK(rules.may_subscribe(bob, world.topics[i]) == readable[i]);
        }
        for (std::size_t i = 0; i < world.filters.size(); ++i) {
            if (!rules.may_subscribe(bob, world.filters[i])) continue;
            ++granted;
            if ((sent[i] & ~readable).any()) FAIL_CHECK(world.filters[i]);
        }
    }
    CHECK(granted > 1'000);
}

TEST_CASE("publishing is decided by the first rule that selects the topic") {
    const World world;
    std::mt19937 random(4'711);
    for (int round = 0; round < 100; ++round) {
        std::vector<Line> lines;
        AccessRules rules;
        for (auto left = 1 + random() % 6; left > 0; --left) {
            lines.push_back({random() % 2 == 0, world.filters[random() % world.filters.size()]});
            const auto& [allow, filter] = lines.back();
            CHECK(rules.add((allow ? "allow write \"" : "deny write \"") + filter + "\"").empty());
        }
        for (const auto& topic : world.topics)
            CHECK(rules.may_publish(bob, topic) == may_read(lines, topic));
    }
}

TEST_CASE("rules come back as lines that say the same") {
    AccessRules rules;
    for (const char* line :
         {"allow read inbox/%u", R"(deny write user "a \"b\\" "with blanks/#")",
          "allow readwrite user bob 100%%/x%c/%2Fy", "deny read $share/+/jobs/#"})
        REQUIRE(rules.add(line).empty());
    const auto lines = rules.lines();
    CHECK(lines == std::vector<std::string>{R"(allow read "inbox/%u")",
                                            R"(deny write user "a \"b\\" "with blanks/#")",
                                            R"(allow readwrite user "bob" "100%%/x%c/%%2Fy")",
                                            R"(deny read "$share/+/jobs/#")"});
    AccessRules again;
    for (const auto& line : lines) REQUIRE(again.add(line).empty());
    CHECK(again.lines() == lines);
    CHECK(again.may_publish(bob, "100%/xbob-phone/%2Fy"));
}

TEST_CASE("without rules nothing is allowed") {
    CHECK_FALSE(AccessRules().may_publish(bob, "a"));
    CHECK_FALSE(AccessRules().may_subscribe(bob, "a"));
}

TEST_CASE("a denied topic can't be read by any wildcard around it") {
    const auto secret = rules({"deny read room/secret", "allow read room/#"});
    CHECK(secret.may_subscribe(bob, "room/lobby"));
    CHECK(secret.may_subscribe(bob, "room/lobby/#"));
    for (const char* around : {"room/secret", "room/+", "room/#", "+/secret", "+/+", "#",
                               "room/+/#", "room/secret/#", "+/secret/#", "$share/g/room/#"})
        CHECK_MESSAGE(!secret.may_subscribe(bob, around), std::string(around));
}

TEST_CASE(
    "a rule that allows only a part of a filter is skipped, and a later rule may cover the whole") {
    CHECK(rules({"allow read a/b", "allow read a/#"}).may_subscribe(bob, "a/+"));
    CHECK_FALSE(rules({"allow read a/b", "allow read a/c"}).may_subscribe(bob, "a/+"));
    CHECK(rules({"allow read a/#", "deny read a/b"}).may_subscribe(bob, "a/+"));
    CHECK_FALSE(
        rules({"allow read a/c", "deny read a/b", "allow read #"}).may_subscribe(bob, "a/+"));
}

TEST_CASE("rules may allow or deny joining a group, besides reading topics") {
    const auto jobs =
        rules({"allow read user bob $share/workers/jobs/#", "deny read $share/workers/#",
               "deny read user bob $share/+/secret/#", "allow read #"});
    const Who eve{"eve", "phone"};
    CHECK(jobs.may_subscribe(bob, "$share/workers/jobs/+"));
    CHECK_FALSE(jobs.may_subscribe(eve, "$share/workers/jobs/+"));
    CHECK_FALSE(jobs.may_subscribe(bob, "$share/workers/others"));
    CHECK(jobs.may_subscribe(eve, "jobs/+"));
    CHECK(jobs.may_subscribe(eve, "$share/others/jobs/+"));
    CHECK_FALSE(jobs.may_subscribe(bob, "$share/others/secret/x"));
    CHECK_FALSE(jobs.may_subscribe(bob, "$share/others/#"));
}

TEST_CASE("a shared subscription is judged by its filter") {
    const auto rooms = rules({"allow read room/#"});
    CHECK(rooms.may_subscribe(bob, "$share/workers/room/+"));
    CHECK_FALSE(rooms.may_subscribe(bob, "$share/workers/#"));
    CHECK_FALSE(rooms.may_subscribe(bob, "$share/room/a"));
}

TEST_CASE("reading and writing are separate, and readwrite is both") {
    const auto both = rules({"allow read r", "allow write w", "allow readwrite rw"});
    CHECK(both.may_subscribe(bob, "r"));
    CHECK_FALSE(both.may_publish(bob, "r"));
    CHECK(both.may_publish(bob, "w"));
    CHECK_FALSE(both.may_subscribe(bob, "w"));
    CHECK(both.may_publish(bob, "rw"));
    CHECK(both.may_subscribe(bob, "rw"));
}

TEST_CASE("a rule for a user is for nobody else") {
    const auto named = rules({"allow readwrite user bob #", "deny readwrite user eve a",
                              "allow readwrite user \"a \\\"b\\\" \\\\c\" x", "allow read a"});
    CHECK(named.may_publish(bob, "x"));
    CHECK(named.may_subscribe(bob, "#"));
    CHECK_FALSE(named.may_subscribe({"eve", "e"}, "a"));
    CHECK(named.may_subscribe({"dave", "d"}, "a"));
    CHECK_FALSE(named.may_subscribe({"dave", "bob"}, "#"));
    CHECK(named.may_publish({"a \"b\" \\c", "d"}, "x"));
}

TEST_CASE("topics that begin with $ need a rule that does too") {
    const auto free = rules({"allow readwrite #", "allow readwrite +/#"});
    CHECK_FALSE(free.may_publish(bob, "$SYS/x"));
    CHECK_FALSE(free.may_subscribe(bob, "$SYS/#"));
    const auto system = rules({"allow read $SYS/#"});
    CHECK(system.may_subscribe(bob, "$SYS/#"));
    CHECK(system.may_subscribe(bob, "$SYS/+/x"));
    CHECK_FALSE(system.may_subscribe(bob, "#"));
}

TEST_CASE("a wildcard rule is for presence too, if the subscription names it") {
    CHECK(rules({"allow read #"}).may_subscribe(bob, "presence/+"));
    CHECK_FALSE(rules({"deny read presence/+", "allow read #"}).may_subscribe(bob, "presence/+"));
    // A subscriber of "#" gets no presence anyway.
    CHECK(rules({"deny read presence/+", "allow read #"}).may_subscribe(bob, "#"));
}

TEST_CASE("names in a filter are the asking client's") {
    const auto own =
        rules({"allow write user/%u/out", "allow read dev-%c.in/#", "allow read %%u/%41"});
    CHECK(own.may_publish(bob, "user/bob/out"));
    CHECK_FALSE(own.may_publish(bob, "user/eve/out"));
    CHECK_FALSE(own.may_publish(bob, "user/bob-phone/out"));
    CHECK_FALSE(own.may_publish(bob, "user/bobb/out"));
    CHECK_FALSE(own.may_publish(bob, "user/bo/out"));
    CHECK_FALSE(own.may_publish(bob, "user/bob"));
    CHECK_FALSE(own.may_publish(bob, "user//out"));
    CHECK(own.may_subscribe(bob, "dev-bob-phone.in/+"));
    CHECK_FALSE(own.may_subscribe(bob, "dev-bob.in/+"));
    CHECK_FALSE(own.may_subscribe(bob, "dev-bob-phone.on/+"));
    CHECK_FALSE(own.may_subscribe(bob, "Dev-bob-phone.in/+"));
    CHECK_FALSE(own.may_subscribe(bob, "dev-.in"));
    CHECK_FALSE(own.may_subscribe(bob, "dev-.i"));
    CHECK_FALSE(own.may_subscribe(bob, "dev-"));
    CHECK_FALSE(own.may_subscribe(bob, "+/#"));
    CHECK(own.may_subscribe(bob, "%u/%41"));
    CHECK_FALSE(own.may_subscribe(bob, "bob/A"));
}

TEST_CASE("no name can widen a rule") {
    const auto own = rules({"allow readwrite inbox/%u", "allow readwrite dev/x%cx/#"});
    std::mt19937 random(99);
    const std::string letters = "ab/+#%$25\"";
    for (int round = 0; round < 2'000; ++round) {
        std::string name;
        for (auto left = random() % 6; left > 0; --left) name += letters[random() % letters.size()];
        std::string other;
        for (auto left = random() % 6; left > 0; --left)
            other += letters[random() % letters.size()];
        CAPTURE(name);
        CAPTURE(other);
        const Who who{name, name};
        CHECK(own.may_subscribe(who, "inbox/" + topic_level(name)));
        CHECK(own.may_publish(who, "inbox/" + topic_level(name)));
        CHECK(own.may_publish(who, "dev/x" + topic_level(name) + "x/y"));
        CHECK(own.may_subscribe(who, "dev/x" + topic_level(name) + "x/#"));
        CHECK(own.may_publish(who, "inbox/" + topic_level(other)) == (name == other));
        CHECK(own.may_publish(who, "dev/x" + topic_level(other) + "x") == (name == other));
        for (const char* wide : {"inbox/+", "inbox/#", "#", "+/+", "inbox/a/b", "dev/+", "dev/+/#"})
            CHECK_FALSE(own.may_subscribe(who, wide));
        if (other != topic_level(name)) CHECK_FALSE(own.may_publish(who, "inbox/" + other));
    }
}

TEST_CASE("a denial by name is as strict as one by text") {
    const auto lines = rules({"deny read room/%u", "allow read #"});
    CHECK_FALSE(lines.may_subscribe(bob, "room/bob"));
    CHECK_FALSE(lines.may_subscribe(bob, "room/+"));
    CHECK_FALSE(lines.may_subscribe(bob, "#"));
    CHECK(lines.may_subscribe(bob, "room/eve"));
    CHECK_FALSE(lines.may_subscribe({"+", "c"}, "room/%2B"));
    CHECK(lines.may_subscribe({"+", "c"}, "room/bob"));
}

TEST_CASE("without a file: one's own inbox, everybody's presence, and the rest free") {
    const auto usual = AccessRules::defaults();
    for (const char* mine : {"inbox/bob", "presence/eve", "presence/+", "presence/#", "room/lobby",
                             "room/#", "room/+/x", "$share/g/room/#"})
        CHECK_MESSAGE(usual.may_subscribe(bob, mine), std::string(mine));
    for (const char* theirs : {"inbox/eve", "inbox/+", "inbox/#", "inbox", "+/eve", "#", "+/#", "+",
                               "inbox/bob/#", "$SYS/#", "$SYS/x", "$share/g/inbox/eve"})
        CHECK_MESSAGE(!usual.may_subscribe(bob, theirs), std::string(theirs));
    for (const char* free : {"inbox/eve", "inbox/bob", "room/lobby", "a"})
        CHECK_MESSAGE(usual.may_publish(bob, free), std::string(free));
    for (const char* reserved : {"presence/bob", "presence", "presence/a/b", "$SYS/x", "$x"})
        CHECK_MESSAGE(!usual.may_publish(bob, reserved), std::string(reserved));
    CHECK(usual.may_subscribe({"a/b", "c"}, "inbox/a%2Fb"));
    CHECK_FALSE(usual.may_subscribe({"+", "c"}, "inbox/+"));
}

TEST_CASE("a file of rules is read with its comments, blanks and line ends") {
    const TemporaryFolder folder;
    const auto path = folder.write("rules",
                                   "# rooms\r\n\r\n  allow\tread   room/#  \r\n"
                                   "   # more\nallow write \"a b/#\"\nallow read user user user\n"
                                   "deny read user");
    const auto read = AccessRules::load(path);
    CHECK(read.size() == 4);
    CHECK(read.may_subscribe(bob, "room/#"));
    CHECK(read.may_publish(bob, "a b/c"));
    CHECK(read.may_subscribe({"user", "c"}, "user"));
    CHECK_FALSE(read.may_subscribe(bob, "user"));
}

TEST_CASE("a file of rules may begin with a byte order mark, and has no null characters") {
    const TemporaryFolder folder;
    const auto read = AccessRules::load(folder.write("rules",
                                                     "\xEF\xBB\xBF"
                                                     "allow read room/#\n"));
    CHECK(read.may_subscribe(bob, "room/#"));
    const auto path = folder.write("null", std::string("\nallow read user b\0b a\n", 23));
    CHECK(complaint([&] { AccessRules::load(path); }) ==
          path + ":2: has a null character; save the file as UTF-8");
}

TEST_CASE("a bad rule is named with its line and the remedy") {
    const TemporaryFolder folder;
    const auto path = folder.write("rules", "allow read a\n\nallow reed b\n");
    CHECK(
        complaint([&] { AccessRules::load(path); }) ==
        path +
            ":3: 'allow reed b' is not a rule; write: allow|deny read|write|readwrite [user NAME] "
            "FILTER (names with blanks in double quotes)");
    CHECK(complaint([&] { AccessRules::load(folder.path("none")); }).find("can't be read") !=
          std::string::npos);
}

TEST_CASE("a rule that could be misread is refused") {
    for (const char* bad : {"", "allow", "allow read", "permit read a", "allow all a",
                            "Allow read a", "allow read a b", "allow read user a",
                            "allow read users bob a", "allow read a # comment"})
        CHECK_MESSAGE(wrong_with(bad).starts_with("is not a rule; write: "), std::string(bad));
    CHECK(wrong_with("allow read user \"\" a").find("without a name") != std::string_view::npos);
    for (const char* bad :
         {"allow read \"a", "allow read \"a\"b", "allow read \"a\\\"", "allow \""})
        CHECK_MESSAGE(wrong_with(bad).find("quote") != std::string_view::npos, std::string(bad));
    for (const char* bad : {"allow read a#", "allow read a/#/b", "allow read \"\"",
                            "allow read a/x+", "allow read a/%u+", "allow read a/%c#"})
        CHECK_MESSAGE(wrong_with(bad).starts_with("has no valid topic filter"), std::string(bad));
    for (const char* bad : {"allow read a/%", "allow read a/%x", "allow read 100%/a",
                            "allow read %4/a", "allow read a/%U"})
        CHECK_MESSAGE(wrong_with(bad).starts_with("has a lone '%'"), std::string(bad));
    for (const char* bad : {"allow read %u/#", "deny read %c", "allow read %ux/a"})
        CHECK_MESSAGE(wrong_with(bad).starts_with("begins with %u or %c"), std::string(bad));
    CHECK(wrong_with("allow read a/%u%c").starts_with("has two names in one level"));
    CHECK(wrong_with("allow read a/%u-%u").starts_with("has two names in one level"));
    CHECK(wrong_with("allow read $share/g").starts_with("has no group and filter"));
    CHECK(wrong_with("allow read $share//a").starts_with("has no group and filter"));
    CHECK(wrong_with("allow readwrite $share/g/a").starts_with("is for a group"));
    CHECK(wrong_with("allow read $share/g/a#").starts_with("has no valid topic filter"));
    CHECK(wrong_with("allow read \xFF").starts_with("is not UTF-8"));
    CHECK(wrong_with("allow read a/\xFE").starts_with("is not UTF-8"));
    CHECK(wrong_with("allow read user \xFF a").starts_with("is not UTF-8"));
    CHECK(wrong_with(std::string_view("allow read a\0b", 14)).starts_with("is not UTF-8"));
    for (const char* good :
         {"allow read #", "deny readwrite +/%u/#", "allow write %%", "allow read %2F",
          "allow read user user user", "allow read a/%u/%c", "allow read a%ub"})
        CHECK_MESSAGE(wrong_with(good).empty(), std::string(good));
}

TEST_CASE("many threads may ask at the same time") {
    const auto usual = AccessRules::defaults();
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (int& mistakes : wrong)
        threads.emplace_back([&] {
            for (int i = 0; i < 1'000; ++i) {
                mistakes += !usual.may_publish(bob, "inbox/eve");
                mistakes += usual.may_subscribe(bob, "inbox/+");
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(4));
}
