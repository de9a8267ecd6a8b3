#include "protocol/topic.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"

using namespace pulsegate;

namespace {

constexpr std::string_view nul("a\0b", 3);

/// The standard's sentences on matching, read without an eye to speed.
std::vector<std::string> split(const std::string& topic) {
    std::vector<std::string> levels{""};
    for (const char c : topic) {
        if (c == '/')
            levels.emplace_back();
        else
            levels.back() += c;
    }
    return levels;
}

bool naive_match(const std::vector<std::string>& filter, const std::vector<std::string>& topic,
                 std::size_t at) {
    if (at < filter.size() && filter[at] == "#") return at <= topic.size();
    if (at == filter.size() || at == topic.size()) return filter.size() == topic.size();
    if (filter[at] != "+" && filter[at] != topic[at]) return false;
    return naive_match(filter, topic, at + 1);
}

bool naive_match(const std::string& filter, const std::string& topic) {
    if (topic[0] == '$' && (filter[0] == '+' || filter[0] == '#')) return false;
    return naive_match(split(filter), split(topic), 0);
}

/// Short names from a small alphabet, so that they meet often.
std::string random_levels(std::mt19937& random, const std::vector<std::string>& levels) {
    std::string out;
    for (auto left = 1 + random() % 4; left > 0; --left) {
        if (!out.empty() || left == 1) out += levels[random() % levels.size()];
        if (left > 1) out += '/';
    }
    return out;
}

}  // namespace

TEST_CASE("a topic name is text without wildcards") {
    for (const char* good : {"a", "/", "//", "a/b", "a/b/", "/a", "a b", "$SYS/x", "\u3042"})
        CHECK(valid_topic_name(good));
    for (const char* bad : {"", "+", "#", "a/+", "a/#", "a+b", "a#", "\xFF"})
        CHECK_FALSE(valid_topic_name(bad));
    CHECK_FALSE(valid_topic_name(nul));
}

TEST_CASE("a wildcard fills its level and # is the last") {
    for (const char* good : {"#", "+", "/", "a", "a/#", "a/b/#", "+/a/#", "/#", "/+", "+/+",
                             "a/+/b", "sport/tennis/+", "$SYS/#", "$", "$share", "$sharex/g/a"})
        CHECK_MESSAGE(valid_topic_filter(good), std::string_view(good));
    for (const char* bad : {"", "a#", "a/b#", "a/#/b", "#/a", "##", "++", "a+", "+a", "sport+",
                            "a/+b/c", "#/", "\xFF"})
        CHECK_MESSAGE(!valid_topic_filter(bad), std::string_view(bad));
    CHECK_FALSE(valid_topic_filter(nul));
}

TEST_CASE("topics and filters have at most 65,535 bytes") {
    CHECK(valid_topic_name(std::string(65'535, 'a')));
    CHECK_FALSE(valid_topic_name(std::string(65'536, 'a')));
    CHECK(valid_topic_filter(std::string(65'535, '/')));
    CHECK_FALSE(valid_topic_filter(std::string(65'536, '/')));
}

TEST_CASE("a shared filter has a group and a filter, both valid") {
    for (const char* good :
         {"$share/g/a", "$share/g/#", "$share/g/+/b", "$share/g//", "$share/g/$SYS/x"})
        CHECK_MESSAGE(valid_topic_filter(good), std::string_view(good));
    for (const char* bad : {"$share/", "$share//a", "$share/g", "$share/g/", "$share/+/a",
                            "$share/#/a", "$share/g+/a", "$share/g/a#", "$share/g/#/a"})
        CHECK_MESSAGE(!valid_topic_filter(bad), std::string_view(bad));
}

TEST_CASE("a shared filter falls into its two parts") {
    const auto shared = shared_filter("$share/group/a/+/b");
    REQUIRE(shared.has_value());
    CHECK(shared->group == "group");
    CHECK(shared->filter == "a/+/b");
    CHECK_FALSE(shared_filter("a/b").has_value());
    CHECK_FALSE(shared_filter("$share").has_value());
    CHECK_FALSE(shared_filter("$share/group").has_value());
    CHECK_FALSE(shared_filter("$SHARE/group/a").has_value());
}

TEST_CASE("the standard's own examples of matching hold") {
    CHECK(topic_matches("sport/tennis/player1/#", "sport/tennis/player1"));
    CHECK(topic_matches("sport/tennis/player1/#", "sport/tennis/player1/ranking"));
    CHECK(topic_matches("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"));
    CHECK(topic_matches("sport/#", "sport"));
    CHECK(topic_matches("#", "sport"));
    CHECK(topic_matches("sport/tennis/+", "sport/tennis/player1"));
    CHECK_FALSE(topic_matches("sport/tennis/+", "sport/tennis/player1/ranking"));
    CHECK_FALSE(topic_matches("sport/+", "sport"));
    CHECK(topic_matches("sport/+", "sport/"));
    CHECK(topic_matches("+/+", "/finance"));
    CHECK(topic_matches("/+", "/finance"));
    CHECK_FALSE(topic_matches("+", "/finance"));
}

TEST_CASE("a leading wildcard does not select topics that begin with $") {
    CHECK_FALSE(topic_matches("#", "$SYS/x"));
    CHECK_FALSE(topic_matches("+/x", "$SYS/x"));
    CHECK_FALSE(topic_matches("+", "$SYS"));
    CHECK(topic_matches("$SYS/#", "$SYS/x"));
    CHECK(topic_matches("$SYS/+", "$SYS/x"));
    CHECK(topic_matches("a/#", "a/$SYS"));
}

TEST_CASE("topics are compared by case and by every slash") {
    CHECK_FALSE(topic_matches("a/B", "a/b"));
    CHECK_FALSE(topic_matches("a", "/a"));
    CHECK_FALSE(topic_matches("a", "a/"));
    CHECK_FALSE(topic_matches("a/b", "a"));
    CHECK(topic_matches("/", "/"));
    CHECK(topic_matches("a//b", "a//b"));
}

TEST_CASE("matching agrees with a naive model on random topics and filters") {
    std::mt19937 random(20'240'229);
    int matches = 0;
    constexpr int tried = sanitized ? 60'000 : 300'000;
    for (int i = 0; i < tried; ++i) {
        const std::string topic = random_levels(random, {"a", "b", "", "$x", "ab"});
        const std::string filter = random_levels(random, {"a", "b", "", "$x", "+", "+", "#"});
        if (!valid_topic_name(topic) || !valid_topic_filter(filter)) continue;
        const bool expected = naive_match(filter, topic);
        matches += expected;
        if (topic_matches(filter, topic) != expected) FAIL(filter << " and " << topic);
    }
    CHECK(matches > tried / 30);
}

TEST_CASE("a topic is split at every slash") {
    TopicLevels levels("a//b/");
    std::vector<std::string_view> seen;
    for (std::string_view level; levels.next(level);) seen.push_back(level);
    CHECK(seen == std::vector<std::string_view>{"a", "", "b", ""});
}
