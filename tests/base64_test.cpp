#include "server/auth/base64.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace pulsegate;

TEST_CASE("base64 is what RFC 4648 says, there and back") {
    const std::vector<std::pair<std::string, std::string>> vectors{{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"},
                                                                   {"\xFB\xFF\xFE", "+//+"}};
    for (const auto& [bytes, text] : vectors) {
        CHECK(to_base64(bytes) == text);
        CHECK(from_base64(text) == bytes);
    }
    CHECK(from_base64url("-__-") == "\xFB\xFF\xFE");
    CHECK(from_base64url("Zg") == "f");
}

TEST_CASE("base64 in another form than the encoder's is refused") {
    for (const char* bad : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "=",
                            "====", "Z===", "Zg==Zg==", "-__-", "Zm9v="})
        CHECK_MESSAGE(!from_base64(bad), std::string(bad));
    for (const char* bad : {"Zg==", "Zh", "Z", "Zm9vY", "+//+", "Zm 9", "Zm9v\n", "Zm.v"})
        CHECK_MESSAGE(!from_base64url(bad), std::string(bad));
}
