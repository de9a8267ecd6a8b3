#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/sanitized.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

namespace {

/// A new client that sends this loses its connection and is told nothing.
void check_closes(const Gateway& gateway, const std::string& packet) {
    CAPTURE(packet);
    clean_session(gateway, "p").send(packet).expect_close();
}

/// No string of any packet that a client sends may be this one.
void check_refused_everywhere(const Gateway& gateway, const std::string& text) {
    CAPTURE(text);
    for (const std::string& connect : {
             "10 r s'MQTT' 04 02 k10 " + text,
             "10 r s'MQTT' 04 06 k10 s'p' " + text + " s'gone'",
             "10 r s'MQTT' 04 82 k10 s'p' " + text,
         })
        Conversation(gateway).send(connect).expect_close();
    check_closes(gateway, "30 r " + text + " 'hi'");
    check_closes(gateway, "32 r " + text + " k7 'hi'");
    check_closes(gateway, "34 r " + text + " k7 'hi'");
    check_closes(gateway, "82 r k7 s'good' 00 " + text + " 00");
    check_closes(gateway, "a2 r k7 s'good' " + text);
}

}  // namespace

TEST_CASE("3.1.1 [MQTT-1.5.3-1] a string that is not UTF-8 closes the connection") {
    Gateway gateway;
    for (const char* text : {"s3 'a' c328",      // no continuation
                             "s2 'a' 80",        // a continuation of nothing
                             "s3 'a' c1bf",      // overlong
                             "s3 'a' e282",      // cut off
                             "s3 eda080",        // U+D800
                             "s3 edbfbf",        // U+DFFF
                             "s6 eda080edb080",  // a pair of surrogates
                             "s4 f4908080",      // past U+10FFFF
                             "s1 ff"})
        check_refused_everywhere(gateway, text);
}

TEST_CASE("3.1.1 [MQTT-1.5.3-2] [MQTT-4.7.3-2] a string with U+0000 closes the connection") {
    Gateway gateway;
    for (const char* text : {"s1 00", "s3 'a' 00 'b'", "s2 c080"})
        check_refused_everywhere(gateway, text);
}

TEST_CASE("3.1.1 [MQTT-1.5.3-3] the bytes EF BB BF are a character like any other") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    auto receiver = clean_session(gateway, at_home(1, "receiver"));
    receiver.send("82 r k1 s4 efbbbf 'x' 00 s4 'y' efbbbf 00").expect("90 04 k1 00 00");
    sender.send(
        "30 r s'x' 'no' | 30 r s'y' 'no' | 30 r s4 efbbbf 'x' '1' | 30 r s4 'y' efbbbf '2'");
    receiver.expect("30 r s4 efbbbf 'x' '1' | 30 r s4 'y' efbbbf '2'").expect_nothing();
}

TEST_CASE("3.1.1 [MQTT-2.2.2-1] the gateway sets the flags of its packets as the standard has it") {
    Gateway gateway;
    Conversation c(gateway);
    c.send("10 r s'MQTT' 04 02 k10 s'p'").expect("20 02 00 00");
    c.send("82 r k1 s'x' 02").expect("90 03 k1 02");
    c.send("32 r s'y' k2 'hi'").expect("40 02 k2");
    c.send("34 r s'y' k3 'hi'").expect("50 02 k3");
    c.send("62 02 k3").expect("70 02 k3");
    auto sender = clean_session(gateway, "sender");
    publish(sender, 2, "x", "hi");
    c.expect("34 r s'x' k1 'hi'").send("50 02 k1").expect("62 02 k1").send("70 02 k1");
    c.send("a2 r k4 s'x'").expect("b0 02 k4");
    c.send("c0 00").expect("d0 00");
}

TEST_CASE("3.1.1 [MQTT-2.2.2-2] wrong flags in a fixed header close the connection") {
    Gateway gateway;
    for (const std::string flags : {"11", "12", "14", "18"})
        Conversation(gateway).send(flags + " r s'MQTT' 04 02 k10 s'p'").expect_close();
    for (const std::string packet :
         {"41 02 k1",     "42 02 k1",        "51 02 k1",        "52 02 k1",
          "60 02 k1",     "63 02 k1",        "6a 02 k1",        "71 02 k1",
          "72 02 k1",     "80 r k1 s'x' 00", "83 r k1 s'x' 00", "8a r k1 s'x' 00",
          "a0 r k1 s'x'", "a3 r k1 s'x'",    "aa r k1 s'x'",    "c1 00",
          "c2 00",        "c8 00",           "e1 00",           "e2 00",
          "e8 00"})
        check_closes(gateway, packet);
}

TEST_CASE("3.1.1 [MQTT-2.3.1-1] a packet identifier of 0 from a client closes the connection") {
    Gateway gateway;
    check_closes(gateway, "82 r k0 s'x' 00");
    check_closes(gateway, "a2 r k0 s'x'");
    check_closes(gateway, "32 r s'x' k0 'hi'");
    check_closes(gateway, "34 r s'x' k0 'hi'");
}

TEST_CASE(
    "3.1.1 [MQTT-2.3.1-1] [MQTT-2.3.1-4] [MQTT-4.3.2-1] [MQTT-4.3.3-1] the gateway gives no "
    "message the identifier 0, nor one in use, however many there are") {
    Gateway gateway;
    for (const unsigned qos : {1u, 2u}) {
        CAPTURE(qos);
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto receiver = clean_session(gateway, at_home(1, "receiver"));
        subscribe(receiver, "held", qos);
        subscribe(receiver, "n", qos);
        publish(sender, qos, "held", "never acknowledged");
        const auto held_packet = receiver.packet();
        const auto held = published(held_packet).packet_id;
        CHECK(held != 0);

        constexpr unsigned batch = 150;
        constexpr unsigned all = sanitized ? 3'000 : 66'000;  // flow_test tries each identifier
        std::string messages;
        std::string taken;
        for (unsigned i = 1; i <= batch; ++i) {
            const auto id = " k" + std::to_string(i);
            messages += wire(qos == 1 ? "32 r s'n'" + id : "34 r s'n'" + id + " | 62 02" + id);
            taken += wire(qos == 1 ? "40 02" + id : "50 02" + id + " | 70 02" + id);
        }
        unsigned zeros = 0;
        unsigned in_use = 0;
        for (unsigned sent = 0; sent < all; sent += batch) {
            sender.send_bytes(messages);
            std::string answers;
            while (answers.size() < taken.size()) answers += sender.packet();
            REQUIRE(answers == taken);

            std::set<unsigned> ids{held};
            std::string first;
            std::string second;
            for (unsigned i = 0; i < batch; ++i) {
                const auto packet = receiver.packet();
                const auto id = published(packet).packet_id;
                zeros += id == 0;
                in_use += !ids.insert(id).second;
                const auto k = " k" + std::to_string(id);
                first += wire((qos == 1 ? "40 02" : "50 02") + k);
                second += wire("70 02" + k);
            }
            receiver.send_bytes(first);
            if (qos == 1) continue;
            for (unsigned i = 0; i < batch; ++i) receiver.packet();  // PUBREL
            receiver.send_bytes(second);
        }
        CHECK(zeros == 0);
        CHECK(in_use == 0);
    }
}

TEST_CASE("3.1.1 [MQTT-2.3.1-5] there is no packet identifier at QoS 0, either way") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    auto receiver = clean_session(gateway, at_home(1, "receiver"));
    subscribe(receiver, "x", 2);
    sender.send("30 r s'x' 0001 'hi' | 30 r s'x' 'hi' | 30 r s'x'");
    receiver.expect("30 r s'x' 0001 'hi' | 30 r s'x' 'hi' | 30 r s'x'").expect_nothing();
}

TEST_CASE(
    "3.1.1 [MQTT-2.3.1-6] PUBACK, PUBREC, PUBREL and PUBCOMP carry the identifier of the "
    "PUBLISH") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    auto receiver = clean_session(gateway, at_home(1, "receiver"));
    subscribe(receiver, "x", 2);
    int count = 0;
    for (const std::string id : {"k1", "k2", "k255", "k256", "k4660", "k65535"}) {
        sender.send("32 r s'y' " + id).expect("40 02 " + id);
        sender.send("34 r s'x' " + id).expect("50 02 " + id);
        sender.send("62 02 " + id).expect("70 02 " + id);
        const auto packet = receiver.packet();
        const auto own = "k" + std::to_string(published(packet).packet_id);
        receiver.send("50 02 " + own).expect("62 02 " + own).send("70 02 " + own);
        ++count;
    }
    receiver.expect_nothing();
    CHECK(count == 6);
}

TEST_CASE(
    "3.1.1 [MQTT-2.3.1-7] [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.10.4-4] SUBACK and UNSUBACK "
    "answer every SUBSCRIBE and UNSUBSCRIBE with its identifier") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto c = clean_session(gateway, at_home(shard, "p"));
        for (const std::string id : {"k1", "k255", "k256", "k4660", "k65535"}) {
            c.send("82 r " + id + " s'x' 00").expect("90 03 " + id + " 00");
            c.send("a2 r " + id + " s'x'").expect("b0 02 " + id);
        }
        c.send("82 r k7 s'x' 00 | 82 r k5 s'y' 00 | a2 r k6 s'x' | a2 r k4 s'y'")
            .expect("90 03 k7 00 | 90 03 k5 00 | b0 02 k6 | b0 02 k4");
    }
}
