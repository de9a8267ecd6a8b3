#include "server/base/text/strict_json.h"

#include <doctest/doctest.h>

using namespace pulsegate;

TEST_CASE("JSON with two members of one name in an object is refused") {
    for (const char* text : {R"({"a":1,"a":2})", R"({"a":1,"\u0061":1})",
                             R"([{"b":{"c":1,"c":2}}])", R"({"a":":","a":"x"})"}) {
        CAPTURE(text);
        CHECK(parse_json(text).mistake == "an object has two members of one name");
    }
}

TEST_CASE("other JSON is taken as it is") {
    for (const char* text : {R"({"a":1,"b":{"a":2},"A":3})", R"([{"a":1},{"a":1}])", R"("a:b")",
                             "1", R"({":":"\":\"","a":":"})", "{}"}) {
        CAPTURE(text);
        CHECK(parse_json(text).mistake.empty());
    }
    CHECK(parse_json(R"({"a":1})").value.at("a").as_int64() == 1);
}

TEST_CASE("a text that is not JSON is refused with the reason") {
    for (const char* text : {"", "{", "{\"a\":1}x", "{'a':1}", "nul"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_json(text).mistake.empty());
    }
}
