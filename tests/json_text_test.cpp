#include "server/base/text/json_text.h"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <string>

namespace json = boost::json;
using namespace pulsegate;

TEST_CASE("numbers are written as people write them") {
    CHECK(json_text(json::array{0.0, 90.0, 12.5, 0.001, -3, 1'795'892'341'000.0,
                                18446744073709551615U}) ==
          "[0,90,12.5,0.001,-3,1795892341000,18446744073709551615]");
}

TEST_CASE("what is written is JSON with the same value, as Boost writes it") {
    for (const std::string text : {R"({"a":[1,[],{}],"b":{"c":null,"d":true},"e":"","f\"\\":"x"})",
                                   R"([])", R"({})", R"("\u0000\b\n\u001f\"\\ \u007f/<>&é")",
                                   R"(1e300)", R"(-1.5e-300)", R"(123456789012345678)"}) {
        CAPTURE(text);
        const json::value value = json::parse(text);
        CHECK(json::parse(json_text(value)) == value);
        if (!value.is_double()) CHECK(json_text(value) == json::serialize(value));
    }
}

TEST_CASE("an object is written like a value") {
    const json::object object{{"silence", 0.0}, {"users", {"a", "b"}}};
    CHECK(json_text(object) == R"({"silence":0,"users":["a","b"]})");
    CHECK(json_text(object) == json_text(json::value(object)));
}
