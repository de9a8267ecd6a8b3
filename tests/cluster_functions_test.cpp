#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "server/cluster/functions.h"
#include "server/cluster/membership.h"
#include "tests/support/cluster_options.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/redis_server.h"

// What a node does with a Redis that it finds.

using namespace pulsegate;

namespace {

RedisConnection::Clock::time_point soon() { return RedisConnection::Clock::now() + test_patience; }

std::string with_version(std::string_view version) {
    std::string library(cluster_functions);
    const std::size_t at = library.find("-- version ");
    REQUIRE(at != std::string::npos);
    library.replace(at, library.find('\n', at) - at, "-- version " + std::string(version));
    return library;
}

std::string library_in(RedisConnection& redis) {
    const RedisReply reply =
        redis.call({"FUNCTION", "LIST", "LIBRARYNAME", "pg1", "WITHCODE"}, soon());
    REQUIRE(reply.items.size() == 1);
    return reply.items[0].items.back().text;
}

}  // namespace

TEST_CASE("the functions are loaded unless Redis has them, or a later version") {
    RedisServer server;
    RedisConnection redis(server.target(), soon());
    load_functions(redis, soon());
    CHECK(library_in(redis) == cluster_functions);
    load_functions(redis, soon());

    const std::string earlier = with_version("0"), later = with_version("1000000");
    REQUIRE_FALSE(redis.call({"FUNCTION", "LOAD", "REPLACE", earlier}, soon()).is_error());
    load_functions(redis, soon());
    CHECK(library_in(redis) == cluster_functions);
    REQUIRE_FALSE(redis.call({"FUNCTION", "LOAD", "REPLACE", later}, soon()).is_error());
    load_functions(redis, soon());
    CHECK(library_in(redis) == later);
}

TEST_CASE("if the Redis user may not load functions, the error names the command that allows it") {
    RedisServer server;
    RedisConnection redis(server.target(), soon());
    redis.call({"ACL", "SETUSER", "default", "-function"}, soon());
    const std::string why = complaint([&] { load_functions(redis, soon()); });
    CHECK(why.find("NOPERM") != std::string::npos);
    CHECK(why.ends_with("ACL SETUSER NAME +function +fcall"));
}

TEST_CASE("a data set of another kind is refused") {
    const QuietLog quiet;
    RedisServer server;
    RedisConnection redis(server.target(), soon());
    redis.call({"HSET", "{pg}:cluster", "birth", "b", "partitions", "64", "format", "1"}, soon());
    CHECK(complaint([&] { Membership(hurried_node("a", server.target())); }) ==
          "cluster: the data in this Redis has 64 partitions and format 1, and this version needs "
          "128 and 1; use another Redis, or the version that wrote it");
}

TEST_CASE("names and leases that cannot be are refused") {
    RedisServer server;
    CHECK(complaint([&] { Membership(hurried_node("a b", server.target())); }) ==
          "node-name: 'a b' is not a valid name; use 1 to 64 letters, digits, dots, hyphens and "
          "underscores");
    auto options = hurried_node("a", server.target());
    options.lease = 3 * options.beat;
    CHECK(complaint([&] { const Membership node(options); }).starts_with("node-lease: "));
}

TEST_CASE("nodes that were condemned long ago are forgotten when there are many") {
    const QuietLog quiet;
    RedisServer server;
    RedisConnection redis(server.target(), soon());
    for (int i = 0; i < 70; ++i) {
        const std::string old = "node" + std::to_string(i) + "#0123456789abcdef";
        redis.call({"HSET", "{pg}:nodes", old, "1 standby 127.0.0.1:1 1.0"}, soon());
        redis.call({"HSET", "{pg}:beats", old, "condemned"}, soon());
    }
    Membership node(hurried_node("a", server.target()));
    REQUIRE(own(node));
    CHECK(node.view().nodes.size() == 1);
}
