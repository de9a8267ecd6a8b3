#include "server/message/topics.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace pulsegate;

TEST_CASE("every user has one presence topic of two levels, and it leads back to the user") {
    CHECK(presence_topic("alice") == "presence/alice");
    CHECK(presence_topic("a/b+c#d%e") == "presence/a%2Fb%2Bc%23d%25e");
    CHECK(presence_topic("") == "presence/");
    for (const std::string name : {"alice", "a/b", "+", "#", "%", "%2F", "/", "//", "%%", "100%",
                                   "a b", "$SYS", "\xC3\xA9"}) {
        CAPTURE(name);
        CHECK(presence_user(presence_topic(name)) == name);
    }
    std::mt19937 random(3);
    for (int i = 0; i < 1000; ++i) {
        std::string name;
        for (auto size = random() % 12; size > 0; --size) name += "/+#%2Fab"[random() % 8];
        const auto topic = presence_topic(name);
        CHECK(presence_user(topic) == name);
        CHECK(topic.find('/', 9) == std::string::npos);
        CHECK(is_topic_level(topic.substr(9), name));
    }
}

TEST_CASE("other spellings of a presence topic belong to no user") {
    for (const char* topic :
         {"presence", "presence/+", "presence/#", "presence/a/b", "presence/%41", "presence/%2f",
          "Presence/alice", "presence/%", "presence/%zz", "x"}) {
        CAPTURE(topic);
        CHECK_FALSE(presence_user(topic));
    }
}

TEST_CASE("every user has one inbox, of two levels") {
    CHECK(inbox_topic("a/b+c#d%e") == "inbox/a%2Fb%2Bc%23d%25e");
    for (const std::string name : {"alice", "a/b", "+", "%2F", "100%", "a b", "\xC3\xA9"})
        CHECK(inbox_user(inbox_topic(name)) == name);
    for (const char* topic : {"inbox", "inbox/a/b", "inbox/%41", "inbox/%2f", "inbox/%", "Inbox/a",
                              "presence/alice", "/inbox/alice"}) {
        CAPTURE(topic);
        CHECK_FALSE(inbox_user(topic));
    }
}

TEST_CASE("filters that select presence are known") {
    for (const char* filter : {"presence/+", "presence/#", "presence/+/#"})
        CHECK(selects_all_presence(filter));
    for (const char* filter :
         {"presence", "presence/alice", "room/+", "presence2/+", "/presence/+", "+/alice", "#",
          "+/+", "+/#", "presence/+/x", "presence/+/+", "presence/alice/+", "presence/+/+/#"})
        CHECK_FALSE(selects_all_presence(filter));
    CHECK(presence_user("presence/alice/#") == "alice");
    CHECK_FALSE(presence_user("presence/alice/+"));
    CHECK_FALSE(presence_user("presence/+/#"));
    CHECK_FALSE(presence_user("presence/#"));
}

TEST_CASE("plain filters are valid, and not shared") {
    for (const char* filter : {"a", "a/+", "#", "$SYS/#", "presence/+"})
        CHECK(is_plain_filter(filter));
    for (const char* text : {"", "a#", "a+", "#/a", "$share/g/a", "$share/g"})
        CHECK_FALSE(is_plain_filter(text));
}

TEST_CASE("a level is a user's name in one spelling only") {
    for (const char* level : {"a%2Fb", "%25", "", "%252F"})
        CHECK(is_topic_level(level, *inbox_user("inbox/" + std::string(level))));
    CHECK_FALSE(is_topic_level("a%2fb", "a/b"));
    CHECK_FALSE(is_topic_level("a/b", "a/b"));
    CHECK_FALSE(is_topic_level("%61", "a"));
    CHECK_FALSE(is_topic_level("ab", "a"));
    CHECK_FALSE(is_topic_level("a", "ab"));
    CHECK_FALSE(is_topic_level("", "a"));
}

TEST_CASE(
    "no client publishes to presence and the server's own topics, and no leading wildcard has "
    "them") {
    for (const char* topic :
         {"presence/alice", "presence/", "presence/a/b", "$SYS", "$SYS/x", "$"}) {
        CAPTURE(topic);
        CHECK(reserved_topic(topic));
        CHECK(hidden_from_leading_wildcard(topic));
    }
    for (const char* topic :
         {"presence", "presences/a", "/presence/a", "inbox/alice", "a/$", "/"}) {
        CAPTURE(topic);
        CHECK_FALSE(reserved_topic(topic));
        CHECK_FALSE(hidden_from_leading_wildcard(topic));
    }
}
