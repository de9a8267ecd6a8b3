#include "protocol/reason.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "protocol/decode.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// A packet type with a reason code, `??` in its notation, and the codes that its own table allows
/// (MQTT 5.0, sections 3.2.2.2, 3.4.2.1 to 3.7.2.1, 3.9.3, 3.11.3, 3.14.2.1, 3.15.2.1).
struct Table {
    const char* notation;
    Sender sender;
    std::set<int> allowed;
};

const std::set<int> publish_answers{0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99};
const std::set<int> publish_answers_of_a_client{0x00, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99};
const std::set<int> release_answers{0x00, 0x92};

const Table tables[] = {
    {"20 r 00 ?? [ ]", Sender::server, {0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86,
                                        0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97,
                                        0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F}},
    {"40 r k1 ??", Sender::server, publish_answers},
    {"40 r k1 ??", Sender::client, publish_answers_of_a_client},
    {"50 r k1 ??", Sender::server, publish_answers},
    {"50 r k1 ??", Sender::client, publish_answers_of_a_client},
    {"62 r k1 ??", Sender::server, release_answers},
    {"62 r k1 ??", Sender::client, release_answers},
    {"70 r k1 ??", Sender::server, release_answers},
    {"70 r k1 ??", Sender::client, release_answers},
    {"90 r k1 [ ] ??",
     Sender::server,
     {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}},
    {"b0 r k1 [ ] ??", Sender::server, {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}},
    {"e0 01 ??",
     Sender::client,
     {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99}},
    {"e0 01 ??", Sender::server, {0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, 0x8D,
                                  0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
                                  0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2}},
    {"f0 r ?? [ 15 s'm' ]", Sender::client, {0x18, 0x19}},
    {"f0 r ?? [ 15 s'm' ]", Sender::server, {0x00, 0x18}},
};

std::string with_code(std::string notation, int code) {
    const char byte[] = {static_cast<char>(code), 0};
    return notation.replace(notation.find("??"), 2, hex({byte, 1}));
}

}  // namespace

TEST_CASE("a reason code is taken only where its packet's table has it") {
    for (const Table& table : tables) {
        for (int code = 0; code < 256; ++code) {
            const std::string notation = with_code(table.notation, code);
            CAPTURE(notation);
            const std::string bytes = wire(notation);
            const Decoded decoded = decode(as_bytes(bytes), Version::v5_0, table.sender);
            CHECK(std::holds_alternative<Packet>(decoded) == table.allowed.contains(code));
        }
    }
}

TEST_CASE("every reason has a name of its own") {
    std::map<std::string_view, int> names;
    for (int code = 0; code < 256; ++code) ++names[name(Reason{static_cast<std::uint8_t>(code)})];
    CHECK(names.size() == 44);  // 43 codes, and the unknown ones
    CHECK(names["unknown reason"] == 256 - 43);
    CHECK(name(Reason::session_taken_over) == "session taken over");
    CHECK(name(Reason::wildcard_subscriptions_not_supported) ==
          "wildcard subscriptions not supported");
}

TEST_CASE("reasons from 0x80 on are errors") {
    CHECK_FALSE(is_error(Reason::reauthenticate));
    CHECK(is_error(Reason::unspecified_error));
}

TEST_CASE("a 3.1.1 client is told a refusal in one of five codes") {
    CHECK(connect_return_code(Reason::success) == 0);
    CHECK(connect_return_code(Reason::unsupported_protocol_version) == 1);
    CHECK(connect_return_code(Reason::client_identifier_not_valid) == 2);
    CHECK(connect_return_code(Reason::server_unavailable) == 3);
    CHECK(connect_return_code(Reason::server_busy) == 3);
    CHECK(connect_return_code(Reason::quota_exceeded) == 3);
    CHECK(connect_return_code(Reason::bad_user_name_or_password) == 4);
    CHECK(connect_return_code(Reason::not_authorized) == 5);
    CHECK(connect_return_code(Reason::banned) == 5);
}

TEST_CASE("a return code is the reason that it was made from") {
    for (std::uint8_t code = 0; code <= 5; ++code)
        CHECK(connect_return_code(connect_reason(code).value()) == code);
    CHECK(connect_reason(5) == Reason::not_authorized);
    CHECK_FALSE(connect_reason(6).has_value());
    CHECK_FALSE(connect_reason(255).has_value());
}
