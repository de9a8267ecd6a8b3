#include "protocol/other_protocol.h"

#include <doctest/doctest.h>

#include <string_view>

#include "server/limits/address_limits.h"

using namespace pulsegate;

namespace {

OtherProtocol spoken(std::string_view text) { return other_protocol(as_bytes(text)); }

}  // namespace

TEST_CASE("an HTTP request and a ClientHello of TLS are known by their first bytes") {
    CHECK(spoken("GET / HTTP/1.1\r\n") == OtherProtocol::http);
    CHECK(spoken("CONNECT example.org:443 HTTP/1.1\r\n") == OtherProtocol::http);
    CHECK(spoken("PRI * HTTP/2.0\r\n") == OtherProtocol::http);
    CHECK(spoken({"\x16\x03\x01\x02\x00\x01\x00", 7}) == OtherProtocol::tls);
    CHECK(spoken({"\x16\x03\x03", 3}) == OtherProtocol::tls);
}

TEST_CASE("MQTT, and what is neither HTTP nor TLS, is not taken for them") {
    CHECK(spoken("") == OtherProtocol::none);
    CHECK(spoken("GET") == OtherProtocol::none);
    CHECK(spoken("GETTING ") == OtherProtocol::none);
    CHECK(spoken({"\x10\x0C\x00\x04MQTT", 8}) == OtherProtocol::none);
    CHECK(spoken({"\x16\x03\x01\x02\x00\x02\x00", 7}) == OtherProtocol::none);
    CHECK(spoken({"\x16\x04\x01", 3}) == OtherProtocol::none);
}

TEST_CASE("a scanner is new once for each address") {
    AddressLimits limits{{}};
    const auto first = Address::parse("10.0.0.1").value();
    const auto second = Address::parse("10.0.0.2").value();
    CHECK(limits.is_new_scanner(first));
    CHECK_FALSE(limits.is_new_scanner(first));
    CHECK(limits.is_new_scanner(second));
    CHECK_FALSE(limits.is_new_scanner(second));
}
