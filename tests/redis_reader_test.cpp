#include "server/redis/redis_reader.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "tests/support/redis_server.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

using Kind = RedisReply::Kind;

std::string unreadable(std::string_view bytes, RedisReader::Limits limits = {}) {
    RedisReader reader(limits);
    reader.feed(bytes);
    return complaint([&] {
        while (reader.next()) {
        }
    });
}

}  // namespace

TEST_CASE("each kind of reply is read, however its bytes are cut") {
    const std::string_view bytes =
        "+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
        "*3\r\n$1\r\nx\r\n*2\r\n:1\r\n$-1\r\n+y\r\n";
    for (std::size_t step : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
        CAPTURE(step);
        RedisReader reader;
        std::vector<RedisReply> replies;
        for (std::size_t at = 0; at < bytes.size(); at += step) {
            reader.feed(bytes.substr(at, step));
            while (auto reply = reader.next()) replies.push_back(std::move(*reply));
        }
        REQUIRE(replies.size() == 8);
        CHECK(replies[0].kind == Kind::status);
        CHECK(replies[0].text == "OK");
        CHECK(replies[1].is_error());
        CHECK(replies[1].text == "ERR no");
        CHECK(replies[2].kind == Kind::integer);
        CHECK(replies[2].integer == -7);
        CHECK(replies[3].kind == Kind::text);
        CHECK(replies[3].text == "a\r\n");
        CHECK(replies[4].kind == Kind::nil);
        CHECK(replies[5].kind == Kind::nil);
        CHECK(replies[6].kind == Kind::array);
        CHECK(replies[6].items.empty());
        const auto& items = replies[7].items;
        REQUIRE(items.size() == 3);
        CHECK(items[0].text == "x");
        REQUIRE(items[1].items.size() == 2);
        CHECK(items[1].items[0].integer == 1);
        CHECK(items[1].items[1].kind == Kind::nil);
        CHECK(items[2].text == "y");
    }
}

TEST_CASE("a reply may neither be malformed nor larger than the limits") {
    CHECK(unreadable("+OK\r\n$2\r\n").empty());
    CHECK(has(unreadable("HTTP/1.1 400\r\n"), "malformed"));
    CHECK(has(unreadable("*1000000000\r\n"), "more than 1048576 items"));
    CHECK(unreadable("*2\r\n*1\r\n:1\r\n:2\r\n*3\r\n", {.items = 3}).empty());
    CHECK(has(unreadable("*2\r\n*2\r\n", {.items = 3}), "more than 3 items"));
    CHECK(unreadable("$100\r\n12", {.bytes = 8}).empty());
    CHECK(has(unreadable("$100\r\n123", {.bytes = 8}), "more than 8 bytes"));
    CHECK(unreadable("+12345678\r\n+1", {.bytes = 8}).empty());
}
