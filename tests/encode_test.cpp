#include "protocol/encode.h"

#include <doctest/doctest.h>

#include <string>

#include "protocol/decode.h"
#include "tests/support/random_packet.h"
#include "tests/support/vectors.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

std::string encoded(const Packet& packet, Version version) {
    Buffer out;
    encode(packet, version, out);
    return hex(out);
}

std::string bytes(std::string_view notation) { return hex(wire(notation)); }

}  // namespace

TEST_CASE("every packet is encoded in its shortest form") {
    for (const ValidVector& vector : valid_vectors()) {
        CAPTURE(vector.what);
        CAPTURE(vector.notation);
        const std::string in = wire(vector.notation);
        const Decoded decoded = decode(as_bytes(in), vector.version, vector.sender);
        REQUIRE(std::holds_alternative<Packet>(decoded));
        const auto shortest = vector.shortest.empty() ? vector.notation : vector.shortest;
        CHECK(encoded(std::get<Packet>(decoded), vector.version) == bytes(shortest));
    }
}

TEST_CASE("a random packet decodes from its encoding to itself") {
    RandomPackets packets(20'240'229);
    std::size_t types_seen = 0;
    for (int i = 0; i < 60'000; ++i) {
        const Version version = i & 1 ? v4 : v5;
        const Sender sender = i & 2 ? Sender::client : Sender::server;
        const Packet packet = packets.next(version, sender);
        types_seen |= std::size_t{1} << packet.index();

        Buffer out;
        encode(packet, version, out);
        const Frame frame = next_frame(as_bytes(out), out.size());
        REQUIRE(frame.status == Frame::Status::complete);
        REQUIRE(frame.size == out.size());
        const Decoded again = decode(as_bytes(out), version, sender);
        if (const auto* error = std::get_if<DecodeError>(&again))
            FAIL(std::string_view(error->cause) << ": " << hex(out));
        if (std::get<Packet>(again) != packet) FAIL("not the same: " << hex(out));
    }
    CHECK(types_seen == (1u << std::variant_size_v<Packet>)-1);
}

TEST_CASE("packets are appended to what is there already") {
    Buffer out;
    encode(Pingreq{}, out);
    encode(Puback{.packet_id = 7}, v5, out);
    encode(Publish{.topic = "a", .payload = "x"}, v4, out);
    encode(Subscribe{.packet_id = 1, .filters = {{"a", {}}}}, v4, out);
    encode(Pingresp{}, out);
    CHECK(hex(out) == bytes("c0 00 | 40 02 k7 | 30 r s'a' 'x' | 82 r k1 s'a' 00 | d0 00"));
}

TEST_CASE("a PINGRESP and a PUBACK stay off the heap") {
    Buffer out;
    const auto capacity = out.capacity();
    encode(Pingresp{}, out);
    encode(Puback{.packet_id = 7}, v5, out);
    CHECK(out.capacity() == capacity);
}

TEST_CASE("the length of a packet grows at 128 and at 16,384 bytes") {
    for (const std::size_t size : {127u, 128u, 16'383u, 16'384u, 2'097'151u, 2'097'152u}) {
        CAPTURE(size);
        const std::string payload(size - 3, 'x');
        const Publish publish{.topic = "a", .payload = payload};
        Buffer out;
        encode(publish, v4, out);
        CHECK(out == wire("30 r s'a' 'x'*" + std::to_string(payload.size())));
        CHECK(encoded_size(publish, v4) == out.size());
    }
    const std::string id(200, 'c');
    CHECK(encoded(Connect{.client_id = id}, v4) == bytes("10 r s'MQTT' 04 02 k0 s'c'*200"));
}

TEST_CASE("the size of a PUBLISH is known before it is encoded") {
    const auto list = PropertyList().add(Property::content_type, std::string(150, 't'));
    for (const Version version : {v4, v5}) {
        for (const QoS qos : {QoS::at_most_once, QoS::exactly_once}) {
            const Publish publish{.qos = qos,
                                  .topic = "room/1",
                                  .packet_id = 9,
                                  .properties = list.view(),
                                  .payload = "hello"};
            Buffer out;
            encode(publish, version, out);
            CHECK(encoded_size(publish, version) == out.size());
        }
    }
}

TEST_CASE("3.1.1 is not told what it doesn't know") {
    const auto list = PropertyList().add(Property::reason_string, "why");
    const Properties why = list.view();
    CHECK(encoded(Puback{7, Reason::quota_exceeded, why}, v4) == "40 02 00 07");
    CHECK(encoded(Pubrel{7, Reason::packet_identifier_not_found, why}, v4) == "62 02 00 07");
    CHECK(encoded(Disconnect{Reason::session_taken_over, why}, v4) == "e0 00");
    CHECK(encoded(Unsuback{1, {Reason::success, Reason::not_authorized}, why}, v4) ==
          "b0 02 00 01");
    CHECK(encoded(Suback{1, {Reason::granted_qos_2, Reason::not_authorized}, why}, v4) ==
          "90 04 00 01 02 80");
    CHECK(encoded(Connack{false, Reason::banned, why}, v4) == "20 02 00 05");
    CHECK(encoded(Publish{.topic = "a", .properties = why}, v4) == bytes("30 r s'a'"));
    const SubscribeOptions options{
        .qos = QoS::at_least_once, .no_local = true, .retain_handling = 2};
    CHECK(encoded(Subscribe{1, {{"a", options}}, why}, v4) == bytes("82 r k1 s'a' 01"));
    CHECK(encoded(Unsubscribe{1, {"a"}, why}, v4) == bytes("a2 r k1 s'a'"));
}

TEST_CASE("5.0 is told the reason, and properties only when there are any") {
    const auto list = PropertyList().add(Property::reason_string, "why");
    CHECK(encoded(Puback{7, Reason::success, {}}, v5) == "40 02 00 07");
    CHECK(encoded(Puback{7, Reason::quota_exceeded, {}}, v5) == "40 03 00 07 97");
    CHECK(encoded(Puback{7, Reason::success, list.view()}, v5) ==
          bytes("40 r k7 00 [ 1f s'why' ]"));
    CHECK(encoded(Disconnect{}, v5) == "e0 00");
    CHECK(encoded(Disconnect{Reason::session_taken_over, {}}, v5) == "e0 01 8e");
    CHECK(encoded(Connack{}, v5) == "20 03 00 00 00");
}
