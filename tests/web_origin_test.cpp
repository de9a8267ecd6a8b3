#include "server/web/web_origin.h"

#include <doctest/doctest.h>

using namespace pulsegate;

TEST_CASE("a client that is not a browser states no origin, and may connect") {
    CHECK(origin_allowed("", "gateway", {}));
    CHECK(origin_allowed("", "", {}));
    CHECK(origin_allowed("", "gateway", {"https://chat.example"}));
}

TEST_CASE("by default a page may ask the host that it comes from, on any port") {
    CHECK(origin_allowed("https://chat.example", "chat.example", {}));
    CHECK(origin_allowed("https://chat.example", "Chat.Example:8084", {}));
    CHECK(origin_allowed("http://localhost:3000", "localhost:8083", {}));
    CHECK(origin_allowed("http://[::1]:3000", "[::1]:8083", {}));
    for (const char* foreign :
         {"https://evil.example", "https://evil.example:8084", "https://chat.example.evil.example",
          "https://evil-chat.example", "null", "chat.example", "http://[::1]", "file://", "://"})
        CHECK_FALSE(origin_allowed(foreign, "chat.example:8084", {}));
    CHECK_FALSE(origin_allowed("https://chat.example", "", {}));
    CHECK_FALSE(origin_allowed("://", "", {}));
}

TEST_CASE("a list of origins says all that may come in") {
    const std::vector<std::string> list{"https://chat.example", "http://localhost:3000"};
    CHECK(origin_allowed("https://chat.example", "gateway", list));
    CHECK(origin_allowed("HTTPS://CHAT.example", "gateway", list));
    CHECK(origin_allowed("http://localhost:3000", "gateway", list));
    CHECK_FALSE(origin_allowed("http://localhost:3001", "gateway", list));
    CHECK_FALSE(origin_allowed("http://chat.example", "gateway", list));
    CHECK_FALSE(origin_allowed("https://gateway", "gateway", list));
    CHECK(origin_allowed("null", "gateway", {"*"}));
}

TEST_CASE("only names and addresses that always lead to this machine are loopback") {
    for (const char* mine : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080",
                             "127.1.2.3", "[::1]", "[::1]:8080"}) {
        CAPTURE(mine);
        CHECK(is_loopback_host(mine));
    }
    for (const char* other :
         {"", "evil.example", "evil.example:8080", "localhost.evil.example",
          "127.0.0.1.evil.example", "192.0.2.1", "[2001:db8::1]", "::1", "0.0.0.0", "x"}) {
        CAPTURE(other);
        CHECK_FALSE(is_loopback_host(other));
    }
}
