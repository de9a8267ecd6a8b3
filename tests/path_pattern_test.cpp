#include "server/http/serving/path_pattern.h"

#include <doctest/doctest.h>

#include <string>

using namespace pulsegate;

namespace {

constexpr const char* member = "/rooms/{room}/members/{user}";

}  // namespace

TEST_CASE("a path without braces is matched by itself alone") {
    CHECK(path_matches("/api/v1", "/api/v1"));
    CHECK_FALSE(path_matches("/api/v1", "/api/v1/"));
    CHECK_FALSE(path_matches("/api/v1", "/api/v"));
    CHECK_FALSE(path_matches("/api/v1", "/api/v1/users"));
    CHECK_FALSE(path_matches("/api/v1", ""));
}

TEST_CASE("a segment in braces stands for any one segment that is not empty") {
    CHECK(path_matches("/users/{user}", "/users/alice"));
    CHECK(path_matches("/users/{user}/revoke", "/users/alice/revoke"));
    CHECK(path_matches(member, "/rooms/r%2F1/members/bob"));
    CHECK_FALSE(path_matches("/users/{user}", "/users/"));
    CHECK_FALSE(path_matches("/users/{user}", "/users"));
    CHECK_FALSE(path_matches("/users/{user}", "/users/alice/revoke"));
    CHECK_FALSE(path_matches("/users/{user}", "/users/alice/"));
    CHECK_FALSE(path_matches("/users/{user}/revoke", "/users//revoke"));
    CHECK_FALSE(path_matches("/users/{user}/revoke", "/users/alice/revoked"));
}

TEST_CASE("the segment of a name in braces is found by the name, still encoded") {
    CHECK(path_segment(member, "/rooms/r%2F1/members/bob", "room") == "r%2F1");
    CHECK(path_segment(member, "/rooms/r%2F1/members/bob", "user") == "bob");
    CHECK(path_segment(member, "/rooms/r%2F1/members/bob", "members") == std::nullopt);
}

TEST_CASE("names that are dots have a form that clients leave as it is") {
    CHECK(path_segment(member, "/rooms/.;/members/..;", "room") == ".");
    CHECK(path_segment(member, "/rooms/.;/members/..;", "user") == "..");
    CHECK(path_segment(member, "/rooms/./members/..", "room") == ".");
    for (const char* other : {";", "...;", "..;;", "a;", "%2E;"})
        CHECK(path_segment("/users/{user}", std::string("/users/") + other, "user") == other);
}
