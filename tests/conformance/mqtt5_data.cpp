// MQTT 5.0, sections 1.5 and 2: texts, numbers, the fixed header, packet identifiers, properties.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

TEST_CASE(
    "5.0 [MQTT-1.5.4-1] [MQTT-3.8.3-1] [MQTT-3.10.3-1] [MQTT-3.3.2-1] a text that is not UTF-8 is "
    "malformed") {
    Gateway gateway;
    for (const std::string text : {"s3 eda080", "s3 edbfbf", "s2 c080", "s1 ff", "s2 e282",
                                   "s4 f4908080", "s3 'a' ff 'b'"}) {
        check_ends(gateway, "30 r " + text + " [ ]", Reason::malformed_packet);
        check_ends(gateway, "30 r s'x' [ 26 s'name' " + text + " ]", Reason::malformed_packet);
        check_ends(gateway, "82 r k1 [ ] " + text + " 00", Reason::malformed_packet);
        check_ends(gateway, "a2 r k1 [ ] " + text, Reason::malformed_packet);
        check_rejected(gateway, "10 r s'MQTT' 05 02 k10 [ ] " + text);
    }
}

TEST_CASE("5.0 [MQTT-1.5.4-2] [MQTT-4.7.3-2] a text with U+0000 is malformed") {
    Gateway gateway;
    check_ends(gateway, "30 r s3 'a' 00 'b' [ ]", Reason::malformed_packet);
    check_ends(gateway, "30 r s'x' [ 03 s1 00 ]", Reason::malformed_packet);
    check_ends(gateway, "82 r k1 [ ] s3 'a' 00 'b' 00", Reason::malformed_packet);
    check_ends(gateway, "a2 r k1 [ ] s1 00", Reason::malformed_packet);
    check_rejected(gateway, "10 r s'MQTT' 05 02 k10 [ ] s1 00");
}

TEST_CASE("5.0 [MQTT-1.5.4-3] U+FEFF is a character like others, and is not stripped") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    c.send("82 r k1 [ ] s4 efbbbf 'x' 00").expect("90 r k1 [ ] 00");
    c.send("30 r s'x' [ ] 'plain' | 30 r s4 efbbbf 'x' [ 03 s3 efbbbf ] 'marked'")
        .expect("30 r s4 efbbbf 'x' [ 03 s3 efbbbf ] 'marked'")
        .expect_nothing();
}

TEST_CASE("5.0 [MQTT-1.5.5-1] a length takes no more bytes than it needs, sent or received") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    subscribe(c, "x", "00");
    for (const int size :
         {123, 124, 16'379, 16'380}) {  // around remaining lengths of 1, 2, 3 bytes
        const auto message = "30 r s'x' [ ] 'y'*" + std::to_string(size);
        c.send(message).expect(message);
    }
    for (const int size : {124, 125}) {  // around a property length of 127 and 128
        const auto message = "30 r s'x' [ 03 s'" + std::string(size, 't') + "' ]";
        c.send(message).expect(message);
    }
    c.expect_nothing();
    check_ends(gateway, "30 r s'x' 80 00", Reason::malformed_packet);
    check_ends(gateway, "c0 80 00", Reason::malformed_packet);
    check_ends(gateway, "82 r k1 [ 0b 81 00 ] s'x' 00", Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-1.5.7-1] both halves of a user property are UTF-8") {
    Gateway gateway;
    for (const std::string pair : {"s1 ff s'value'", "s'name' s1 ff", "s3 eda080 s'value'",
                                   "s'name' s1 00", "s1 00 s'value'"}) {
        check_ends(gateway, "30 r s'x' [ 26 " + pair + " ]", Reason::malformed_packet);
        check_ends(gateway, "82 r k1 [ 26 " + pair + " ] s'x' 00", Reason::malformed_packet);
        check_rejected(gateway, connect("p", "26 " + pair));
    }
}

TEST_CASE("5.0 [MQTT-2.1.3-1] a packet with reserved flags that are set otherwise is malformed") {
    Gateway gateway;
    for (const char* packet :
         {"41 02 k1", "51 02 k1", "60 02 k1", "71 02 k1", "80 r k1 [ ] s'x' 00",
          "83 r k1 [ ] s'x' 00", "a0 r k1 [ ] s'x'", "a6 r k1 [ ] s'x'", "c1 00", "c8 00", "e1 00",
          "f4 r 19 [ 15 s'x' ]"})
        check_ends(gateway, packet, Reason::malformed_packet);
    for (const char* flags : {"11", "12", "14", "18"})
        check_rejected(gateway, flags + connect("p").substr(2));
}

TEST_CASE(
    "5.0 [MQTT-2.2.1-2] [MQTT-4.3.1-1] [MQTT-3.3.1-2] a message at QoS 0 goes out without packet "
    "identifier and DUP") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto receiver = join(gateway, connect(at_home(shard, "receiver")));
        subscribe(receiver, "x", "00");
        sender.send("30 r s'x' [ ] 'zero' | 32 r s'x' k7 [ ] 'one' | 3a r s'x' k8 [ ] 'again'");
        sender.expect("40 02 k7 | 40 02 k8");
        receiver.expect("30 r s'x' [ ] 'zero' | 30 r s'x' [ ] 'one' | 30 r s'x' [ ] 'again'");
        receiver.expect_nothing();
    }
    check_ends(gateway, "38 r s'x' [ ] 'twice'", Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-2.2.1-3] a client that leaves its packet identifier 0 is disconnected") {
    Gateway gateway;
    for (const char* packet : {"32 r s'x' k0 [ ]", "34 r s'x' k0 [ ]", "82 r k0 [ ] s'x' 00",
                               "a2 r k0 [ ] s'x'", "62 02 k0"})
        check_ends(gateway, packet, Reason::protocol_error);
}

TEST_CASE(
    "5.0 [MQTT-2.2.1-4] [MQTT-4.3.2-1] [MQTT-4.3.3-1] the gateway uses no packet identifier that "
    "is in use, nor 0") {
    Gateway gateway;
    auto c = join(gateway, connect("p", "21 k65535"));
    subscribe(c, "x", "01");
    subscribe(c, "y", "02");
    c.send("32 r s'x' k1 [ ]").expect("32 r s'x' k1 [ ] | 40 02 k1");  // stays unacknowledged
    auto sender = join(gateway, connect("sender"));
    publish_exactly_once(sender, "y");
    c.expect("34 r s'y' k2 [ ]");
    c.send("50 02 k2").expect("62 02 k2");  // stays uncompleted
    constexpr int batch = 250;
    std::string messages;
    for (int i = 0; i < batch; ++i) messages += wire("32 r s'x' k1 [ ]");
    int id = 2;
    for (int sent = 0; sent < 66'000; sent += batch) {
        std::string expected;
        std::string acknowledgements;
        for (int i = 0; i < batch; ++i) {
            id = id == 65'535 ? 3 : id + 1;
            const auto k = " k" + std::to_string(id);
            expected += (i ? " | 32 r s'x'" : "32 r s'x'") + k + " [ ] | 40 02 k1";
            acknowledgements += wire("40 02" + k);
        }
        c.send_bytes(messages).expect(expected).send_bytes(acknowledgements);
    }
    c.expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-2.2.1-5] [MQTT-4.3.3-11] acknowledgements carry the identifier of their message") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    c.send("32 r s'x' k65535 [ ] | 34 r s'x' k258 [ ]").expect("40 02 k65535 | 50 02 k258");
    c.send("62 02 k258").expect("70 02 k258");
    subscribe(c, "x", "02");
    auto sender = join(gateway, connect("sender"));
    publish_exactly_once(sender, "x");
    const auto first = c.packet();
    const auto id = " k" + std::to_string(published(first, v5).packet_id);
    c.send("50 02" + id).expect("62 02" + id).send("70 02" + id);
    c.expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-2.2.1-6] [MQTT-3.8.4-2] [MQTT-3.10.4-5] SUBACK and UNSUBACK carry the identifier of "
    "their request") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    for (const std::string id : {"k1", "k258", "k65535"}) {
        c.send("82 r " + id + " [ ] s'x' 00").expect("90 r " + id + " [ ] 00");
        c.send("a2 r " + id + " [ ] s'x'").expect("b0 r " + id + " [ ] 00");
        c.send("a2 r " + id + " [ ] s'x'").expect("b0 r " + id + " [ ] 11");
    }
}

TEST_CASE("5.0 [MQTT-2.2.2-1] a packet without properties says so with a length of 0") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    c.send("82 r k1 00 s'x' 00").expect("90 04 k1 00 00");
    c.send("30 r s'x' 00 'hi'").expect("30 06 s'x' 00 'hi'");
    c.send("a2 r k1 00 s'x'").expect("b0 04 k1 00 00");
    check_ends(gateway, "30 r s'x'", Reason::malformed_packet);
    check_ends(gateway, "82 r k1", Reason::malformed_packet);
    check_ends(gateway, "a2 r k1", Reason::malformed_packet);
}
