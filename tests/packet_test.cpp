#include "protocol/packet.h"

#include <doctest/doctest.h>

using namespace pulsegate;

TEST_CASE("a packet type has the standard's name") {
    CHECK(name(PacketType::connect) == "CONNECT");
    CHECK(name(PacketType::pubcomp) == "PUBCOMP");
    CHECK(name(PacketType::pingreq) == "PINGREQ");
    CHECK(name(PacketType::auth) == "AUTH");
    CHECK(name(PacketType{0}) == "reserved");
}

TEST_CASE("a packet type is the place of its packet in the variant") {
    CHECK(Packet(Connect{}).index() + 1 == static_cast<std::size_t>(PacketType::connect));
    CHECK(Packet(Pubrel{}).index() + 1 == static_cast<std::size_t>(PacketType::pubrel));
    CHECK(Packet(Auth{}).index() + 1 == static_cast<std::size_t>(PacketType::auth));
}
