#include "tests/support/wire.h"

#include <doctest/doctest.h>

#include <stdexcept>

using pulsegate::hex;
using pulsegate::wire;

TEST_CASE("packet notation gives bytes, texts, lengths and numbers") {
    CHECK(hex(wire("10 c000 FF")) == "10 c0 00 ff");
    CHECK(hex(wire("'ab' s2 'ab' s'ab' s''")) == "61 62 00 02 61 62 00 02 61 62 00 00");
    CHECK(hex(wire("k258 w16909060")) == "01 02 01 02 03 04");
    CHECK(hex(wire("r0 r127 r128 r268435455")) == "00 7f 80 01 ff ff ff 7f");
    CHECK(hex(wire("00*3 'x'*2 s'x'*2")) == "00 00 00 78 78 00 02 78 78");
    CHECK(wire("") == "");
}

TEST_CASE("packet notation counts remaining lengths and lists") {
    CHECK(hex(wire("c0 r")) == "c0 00");
    CHECK(hex(wire("30 r s'a' 'hello' | c0 r")) == "30 08 00 01 61 68 65 6c 6c 6f c0 00");
    CHECK(hex(wire("[ ] [ 21 k20 ]")) == "00 03 21 00 14");
    CHECK(wire("30 r 'x'*200").size() == 203);
    CHECK(wire("10 r s'MQTT' 04 02 k10 s'p'") == wire("10 r13 s4 'MQTT' 04 02 k10 s1 'p'"));
}

TEST_CASE("wrong packet notation is refused") {
    for (const char* wrong : {"1", "zz", "1g", "'ab", "s", "k", "[ 00", "00 ]", "r r", "[ r ]"}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(wire(wrong), std::invalid_argument);
    }
}
