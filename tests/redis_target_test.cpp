#include "server/redis/redis_target.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "tests/support/redis_server.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

std::string why_not(std::string_view url) {
    return complaint([&] { parse_redis_target(url); });
}

}  // namespace

TEST_CASE("the URL of one Redis names its host and port") {
    const auto target = parse_redis_target("redis://redis.internal:7000");
    REQUIRE(target.addresses.size() == 1);
    CHECK(target.addresses[0].host == "redis.internal");
    CHECK(target.addresses[0].port == 7000);
    CHECK_FALSE(target.tls);
    CHECK(target.sentinel_name.empty());
    CHECK(target.user.empty());
    CHECK(target.text() == "redis://redis.internal:7000");
}

TEST_CASE("the URL of Redis may name TLS, a user and several servers, also with IPv6") {
    const auto target = parse_redis_target("rediss://pulse%40gate@10.0.0.1:6380,[::1],b");
    CHECK(target.tls);
    CHECK(target.user == "pulse@gate");
    REQUIRE(target.addresses.size() == 3);
    CHECK(target.addresses[0].text() == "10.0.0.1:6380");
    CHECK(target.addresses[1].text() == "[::1]:6379");
    CHECK(target.addresses[2].text() == "b:6379");
}

TEST_CASE("the URL of Sentinels ends with the primary's name") {
    const auto target = parse_redis_target("rediss+sentinel://a:5000,b/chat");
    CHECK(target.tls);
    CHECK(target.sentinel_name == "chat");
    REQUIRE(target.addresses.size() == 2);
    CHECK(target.addresses[1].port == 26379);
    CHECK(target.text() == "rediss+sentinel://a:5000,b:26379/chat");
    CHECK(has(why_not("redis+sentinel://a:5000"), "primary is missing"));
    CHECK(has(why_not("redis+sentinel://a:5000/"), "primary is missing"));
}

TEST_CASE("a malformed URL of Redis is refused with what to write instead") {
    for (const auto* url : {"",
                            "redis",
                            "localhost:6379",
                            "http://a:1",
                            "redis+cluster://a:1",
                            "redisx://a:1",
                            "redis://",
                            "redis://:6379",
                            "redis://a:",
                            "redis://a:0",
                            "redis://a:65536",
                            "redis://a:x",
                            "redis://a,",
                            "redis://,a",
                            "redis://a b",
                            "redis://[::1",
                            "redis://[::1]x",
                            "redis://[]:1",
                            "redis://::1",
                            "redis://a?x"}) {
        CAPTURE(url);
        CHECK(has(why_not(url), "write redis://HOST:PORT"));
    }
    CHECK(has(why_not("redis://a:6379/0"), "a database is not supported"));
    CHECK(has(why_not("redis://@a:6379"), "the user's name"));
    CHECK(parse_redis_target("redis://a:6379/").text() == "redis://a:6379");
}

TEST_CASE("a password in the URL of Redis is refused without being repeated") {
    for (const auto* url : {"redis://alice:secret@a:6379", "redis://:secret@a:6379",
                            "redis://alice:secret/@,@a:6379", "http://alice:secret@a"}) {
        CAPTURE(url);
        CHECK_FALSE(why_not(url).empty());
        CHECK_FALSE(has(why_not(url), "secret"));
    }
    CHECK(has(why_not("redis://alice:secret@a:6379"), "cluster-password-file"));
}
