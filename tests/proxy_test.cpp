#include "protocol/proxy.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/support/codec_check.h"
#include "tests/support/framing_check.h"
#include "tests/support/sanitized.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

using Status = ProxyHeader::Status;

/// Whatever the header, it is incomplete until its last byte, and does not care what follows it.
ProxyHeader read_header(const std::string& bytes) {
    const std::string longer = bytes + "\x10\x0d";
    CHECK(broken_framing_promise(as_bytes(longer), 1'000) == nullptr);
    return proxy_header(ExactCopy(as_bytes(bytes)).bytes());
}

std::string line(std::string_view text) { return std::string(text) + "\r\n"; }

/// A block's bytes: what follows the signature, in notation.
std::string block(std::string_view notation) {
    return wire("0d0a0d0a 00 0d0a 'QUIT' 0a") + wire(notation);
}

std::string cause(const std::string& bytes) {
    const ProxyHeader header = read_header(bytes);
    return header.status == Status::bad ? header.cause : "not bad";
}

void check_source(const std::string& bytes, const ProxySource& expected) {
    CAPTURE(hex(bytes));
    const ProxyHeader header = read_header(bytes);
    REQUIRE(header.status == Status::complete);
    CHECK(header.size == bytes.size());
    REQUIRE(header.source.has_value());
    CHECK(*header.source == expected);
}

void check_no_source(const std::string& bytes) {
    CAPTURE(hex(bytes));
    const ProxyHeader header = read_header(bytes);
    REQUIRE(header.status == Status::complete);
    CHECK(header.size == bytes.size());
    CHECK_FALSE(header.source.has_value());
}

constexpr Ipv6 documentation = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x07};

}  // namespace

TEST_CASE("a line gives where an IPv4 or IPv6 connection comes from") {
    check_source(line("PROXY TCP4 192.0.2.1 198.51.100.7 40001 1883"), {Ipv4{192, 0, 2, 1}, 40001});
    check_source(line("PROXY TCP6 2001:db8::7 2001:DB8::8 65535 1883"), {documentation, 65535});
    check_source(line("PROXY TCP4 0.0.0.0 255.255.255.255 0 65535"), {Ipv4{}, 0});
}

TEST_CASE("a line may be as long as 107 bytes, and no longer") {
    const std::string unknown = "PROXY UNKNOWN ";
    check_no_source(line(unknown + std::string(105 - unknown.size(), 'x')));
    const std::string endless = unknown + std::string(106 - unknown.size(), 'x');
    CHECK(cause(line(endless)) == "a PROXY line is too long");
    CHECK(proxy_header(as_bytes(endless)).status == Status::incomplete);
    CHECK(proxy_header(as_bytes(endless + "x")).status == Status::bad);
    const auto* full = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    Ipv6 ones;
    ones.fill(0xff);
    check_source(line(fmt::format("PROXY TCP6 {0} {0} 65535 65535", full)), {ones, 65535});
}

TEST_CASE("a line of unknown proxied_peer leaves the peer's own address, whatever else it says") {
    check_no_source(line("PROXY UNKNOWN"));
    check_no_source(line("PROXY UNKNOWN "));
    check_no_source(line("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535"));
    CHECK(cause(line("PROXY UNKNOWNS")) == "PROXY names no known protocol");
}

TEST_CASE("a malformed line is refused") {
    CHECK(cause(line("PROXY ")) == "PROXY names no known protocol");
    CHECK(cause(line("PROXY TCP5 192.0.2.1 192.0.2.2 1 2")) == "PROXY names no known protocol");
    CHECK(cause(line("PROXY tcp4 192.0.2.1 192.0.2.2 1 2")) == "PROXY names no known protocol");
    CHECK(cause(line("PROXY  TCP4 192.0.2.1 192.0.2.2 1 2")) == "PROXY names no known protocol");
    const auto* fields = "PROXY needs two addresses and two ports";
    CHECK(cause(line("PROXY TCP4")) == fields);
    CHECK(cause(line("PROXY TCP4 192.0.2.1 192.0.2.2 1")) == fields);
    CHECK(cause(line("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3")) == fields);
    CHECK(cause(line("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 ")) == fields);
    CHECK(cause(line("PROXY TCP4  192.0.2.1 192.0.2.2 1")) == "a PROXY address is malformed");
    const auto* port = "a PROXY port is malformed";
    for (const auto* bad : {"65536", "-1", "+1", "01", "0x1", "", "1.0", "1\r", "99999999999999"})
        CHECK(cause(line(std::string("PROXY TCP4 192.0.2.1 192.0.2.2 ") + bad + " 2")) == port);
    CHECK(cause(line("PROXY TCP4 192.0.2.1 192.0.2.2 1 65536")) == port);
    CHECK(cause("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n\r\n") == port);
}

TEST_CASE("a line's addresses are of its family, and written without doubt") {
    const auto from = [](std::string_view family, std::string_view address) {
        const std::string other = family == "TCP4" ? "192.0.2.2" : "::2";
        return cause(line("PROXY " + std::string(family) + " " + std::string(address) + " " +
                          other + " 1 2"));
    };
    const auto* malformed = "a PROXY address is malformed";
    for (const auto* bad : {"::1", "192.0.2", "192.0.2.1.1", "192.0.2.", ".0.2.1", "192.0.2.256",
                            "192.0.2.01", "0x7f.0.0.1", "2130706433", "192.0.2.1/8", ""})
        CHECK(from("TCP4", bad) == malformed);
    for (const auto* bad : {"192.0.2.1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3",
                            ":::", "1:", ":1", "12345::", "g::", "fe80::1%eth0", "[::1]",
                            "1:2:3:4::5:6:7:8", "::192.0.2", "192.0.2.1::", ":", ""})
        CHECK(from("TCP6", bad) == malformed);
    CHECK(cause(line("PROXY TCP4 192.0.2.1 ::1 1 2")) == malformed);
}

TEST_CASE("IPv6 addresses are understood as the system understands them") {
    std::mt19937 random(4291);
    const std::string alphabet = "::::1fA0.2";
    int right = 0;
    constexpr int tried = sanitized ? 60'000 : 300'000;
    for (int i = 0; i < tried; ++i) {
        std::string text;
        if (i % 2 == 0) {
            for (auto left = 1 + random() % 12; left > 0; --left)
                text += alphabet[random() % alphabet.size()];
        } else {
            const std::string parts[] = {"::", ":", "1", "ab", "FFFF", "0", "00000", "1.2.3.4"};
            for (auto left = 1 + random() % 17; left > 0; --left)
                text += left % 2 ? parts[2 + random() % 3] : parts[random() % 12 ? 1 : 0];
            if (random() % 4 == 0) text += ":" + parts[5 + random() % 3];
        }
        CAPTURE(text);
        in6_addr expected;
        const bool valid = inet_pton(AF_INET6, text.c_str(), &expected) == 1;
        right += valid;
        const std::string bytes = line("PROXY TCP6 " + text + " :: 1 2");
        if (bytes.size() > longest_proxy_line) continue;
        const ProxyHeader header = proxy_header(as_bytes(bytes));
        REQUIRE((header.status == Status::complete) == valid);
        if (!valid) continue;
        Ipv6 bytewise;
        std::copy_n(expected.s6_addr, bytewise.size(), bytewise.begin());
        REQUIRE(std::get<Ipv6>(header.source->address) == bytewise);
    }
    CHECK(right > tried / 30);
}

TEST_CASE("a block gives where an IPv4 or IPv6 connection comes from") {
    check_source(block("21 11 k12 c0000201 c6336407 k40001 k1883"), {Ipv4{192, 0, 2, 1}, 40001});
    check_source(block("21 21 k36 20010db8 00*11 07 20010db8 00*11 08 k65535 k1883"),
                 {documentation, 65535});
}

TEST_CASE("the extensions of a block are skipped") {
    check_source(block("21 11 k19 c0000201 c6336407 k40001 k1883 03 k4 00*4"),
                 {Ipv4{192, 0, 2, 1}, 40001});
    check_source(block("21 11 k13 c0000201 c6336407 k40001 k1883 ff"), {Ipv4{192, 0, 2, 1}, 40001});
    check_no_source(block("20 00 k7 03 k4 00*4"));
}

TEST_CASE("a proxy that speaks for itself leaves the peer's own address") {
    check_no_source(block("20 00 k0"));
    check_no_source(block("20 11 k12 c0000201 c6336407 k40001 k1883"));
    check_no_source(block("20 ff k3 010203"));
}

TEST_CASE("a block without an IPv4 or IPv6 address leaves the peer's own address") {
    check_no_source(block("21 00 k0"));
    check_no_source(block("21 01 k0"));
    check_no_source(block("21 12 k12 c0000201 c6336407 k40001 k1883"));
    check_no_source(block("21 22 k36 00*36"));
    check_no_source(block("21 31 k216 '/run/a' 00*210"));
    check_no_source(block("21 32 k216 00*216"));
}

TEST_CASE("a malformed block is refused") {
    const auto* command = "a PROXY block has an unknown version or command";
    CHECK(cause(block("11 11 k12 00*12")) == command);
    CHECK(cause(block("31 11 k12 00*12")) == command);
    CHECK(cause(block("22 11 k12 00*12")) == command);
    CHECK(cause(block("21 41 k12 00*12")) == "a PROXY block is of no known family");
    CHECK(cause(block("21 13 k12 00*12")) == "a PROXY block is of no known family");
    CHECK(cause(block("21 11 k11 00*11")) == "a PROXY block is too short for its addresses");
    CHECK(cause(block("21 11 k0")) == "a PROXY block is too short for its addresses");
    CHECK(cause(block("21 21 k35 00*35")) == "a PROXY block is too short for its addresses");
}

TEST_CASE("a block may be as long as 4 KiB and its header, and no longer") {
    check_source(block("21 11 k4096 c0000201 c6336407 k40001 k1883 00*4084"),
                 {Ipv4{192, 0, 2, 1}, 40001});
    CHECK(cause(block("21 11 k4097")) == "a PROXY block is too long");
    CHECK(cause(block("20 00 k65535")) == "a PROXY block is too long");
}

TEST_CASE("an incomplete block tells its size as soon as its header is there") {
    const std::string bytes = block("21 11 k12 c0000201 c6336407 k40001 k1883");
    CHECK(proxy_header(as_bytes(bytes.substr(0, 11))).size == 0);
    CHECK(proxy_header(as_bytes(bytes.substr(0, 12))).size == 16);
    CHECK(proxy_header(as_bytes(bytes.substr(0, 16))).size == 28);
    CHECK(proxy_header({}).status == Status::incomplete);
}

TEST_CASE("a connection without a header is refused by its first byte that is wrong") {
    const auto* none = "the connection begins without a PROXY header";
    CHECK(cause(wire("10 r s'MQTT' 04 02 k10 s'p'")) == none);
    CHECK(cause(wire("10")) == none);
    CHECK(cause("GET / HTTP/1.1\r\n") == none);
    CHECK(cause("PROXZ") == none);
    CHECK(cause(wire("0d0a0d0a 01")) == none);
}
