#include "server/base/text/url.h"

#include <doctest/doctest.h>

using namespace pulsegate;

TEST_CASE("an IPv6 address stands in brackets before a port, any other host as it is") {
    CHECK(bracketed("::1") == "[::1]");
    CHECK(bracketed("2001:db8::7") == "[2001:db8::7]");
    CHECK(bracketed("127.0.0.1") == "127.0.0.1");
    CHECK(bracketed("example.org") == "example.org");
}

TEST_CASE("percent-encoded text is decoded once") {
    CHECK(percent_decoded("") == "");
    CHECK(percent_decoded("a+b") == "a+b");
    CHECK(percent_decoded("%41%2f%2F") == "A//");
    CHECK(percent_decoded("%2541") == "%41");
    CHECK(percent_decoded("%C3%A9") == "\xC3\xA9");
}

TEST_CASE("a name that is dots gets a mark as a segment of a path") {
    CHECK(path_segment_of("john smith") == "john%20smith");
    CHECK(path_segment_of(".") == ".;");
    CHECK(path_segment_of("..") == "..;");
    CHECK(path_segment_of("...") == "...");
    CHECK(path_segment_of(".;") == ".%3B");
}

TEST_CASE("broken escapes, and what is no UTF-8, are no text") {
    for (const char* broken : {"%", "a%", "%4", "%4g", "%g4", "%%41", "%FF", "%00", "%C3"}) {
        CAPTURE(broken);
        CHECK_FALSE(percent_decoded(broken));
    }
}
