#include "server/limits/address_range.h"

#include <doctest/doctest.h>

using namespace pulsegate;

namespace {

bool contains(const char* range, const char* address) {
    return AddressRange::parse(range).value().contains(address);
}

}  // namespace

TEST_CASE("a range of addresses is one address, or a network") {
    CHECK(contains("10.0.0.7", "10.0.0.7"));
    CHECK_FALSE(contains("10.0.0.7", "10.0.0.8"));
    CHECK(contains("10.0.0.0/8", "10.255.0.1"));
    CHECK_FALSE(contains("10.0.0.0/8", "11.0.0.1"));
    CHECK(contains("10.0.0.64/26", "10.0.0.127"));
    CHECK_FALSE(contains("10.0.0.64/26", "10.0.0.128"));
    CHECK(contains("0.0.0.0/0", "192.0.2.1"));
    CHECK_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
    CHECK(contains("2001:db8::/33", "2001:db8:7fff::1"));
    CHECK_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
    CHECK(contains("::/0", "2001:db8::1"));
}

TEST_CASE("an IPv4 address that is mapped to IPv6 counts as IPv4") {
    CHECK(contains("::ffff:10.0.0.7", "10.0.0.7"));
    CHECK(contains("10.0.0.0/24", "::ffff:10.0.0.7"));
    CHECK(contains("fe80::1", "fe80::1%eth0"));
}

TEST_CASE("a text that is not an address is no range, and is in no range") {
    for (const char* text : {"", "/8", "10.0.0", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x",
                             "::/129", "10.0.0.0/-1", "localhost"}) {
        CAPTURE(text);
        CHECK_FALSE(AddressRange::parse(text));
    }
    CHECK_FALSE(contains("0.0.0.0/0", ""));
    CHECK_FALSE(contains("0.0.0.0/0", "a peer that has gone"));
}
