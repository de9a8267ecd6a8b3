#include <doctest/doctest.h>

#include <string>

#include "protocol/topic.h"
#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

namespace {

/// Publishes to all these topics, and looks which of them a subscriber to this filter gets.
class Selection {
public:
    explicit Selection(const Gateway& gateway, unsigned shard)
        : sender_(clean_session(gateway, at_home(0, "sender"))),
          receiver_(clean_session(gateway, at_home(shard, "receiver"))) {}

    void check(const std::string& filter, const std::string& topics, const std::string& expected) {
        CAPTURE(filter);
        subscribe(receiver_, filter, 0);
        sender_.send(topics).expect_nothing();
        receiver_.expect(expected).expect_nothing();
        receiver_.send("a2 r k2 s'" + filter + "'").expect("b0 02 k2");
    }

private:
    Conversation sender_;
    Conversation receiver_;
};

/// SUBSCRIBE and UNSUBSCRIBE with this filter close the connection.
void check_malformed(const Gateway& gateway, const std::string& filter) {
    CAPTURE(filter);
    clean_session(gateway, "p").send("82 r k1 s'" + filter + "' 00").expect_close();
    clean_session(gateway, "p").send("a2 r k1 s'" + filter + "'").expect_close();
}

}  // namespace

TEST_CASE(
    "3.1.1 [MQTT-4.7.1-2] # selects a level and all below it, and stands last, alone or after "
    "a separator") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        Selection selection(gateway, shard);
        selection.check("a/#", "30 r s'a' | 30 r s'a/b' | 30 r s'a/b/c' | 30 r s'ab' | 30 r s'/a'",
                        "30 r s'a' | 30 r s'a/b' | 30 r s'a/b/c'");
        selection.check("a/b/#", "30 r s'a' | 30 r s'a/b' | 30 r s'a/b/' | 30 r s'a/bc'",
                        "30 r s'a/b' | 30 r s'a/b/'");
        selection.check("/#", "30 r s'a/b' | 30 r s'/a' | 30 r s'//'", "30 r s'/a' | 30 r s'//'");
    }
    for (const std::string filter : {"a#", "a/#/b", "#/", "#/a", "##", "a/b#", "a/##", "#+"})
        check_malformed(gateway, filter);
}

TEST_CASE("3.1.1 [MQTT-4.7.1-3] + selects one whole level, at any place") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        Selection selection(gateway, shard);
        selection.check("a/+", "30 r s'a' | 30 r s'a/' | 30 r s'a/b' | 30 r s'a/b/c' | 30 r s'b/a'",
                        "30 r s'a/' | 30 r s'a/b'");
        selection.check("+/b/+", "30 r s'a/b/c' | 30 r s'/b/' | 30 r s'a/c/c' | 30 r s'a/b'",
                        "30 r s'a/b/c' | 30 r s'/b/'");
        selection.check("+", "30 r s'a' | 30 r s'/a' | 30 r s'a/' | 30 r s'b'",
                        "30 r s'a' | 30 r s'b'");
        selection.check("/+", "30 r s'a' | 30 r s'/a' | 30 r s'/a/b' | 30 r s'/'",
                        "30 r s'/a' | 30 r s'/'");
        selection.check("a/+/#", "30 r s'a' | 30 r s'a/b' | 30 r s'a/b/c/d'",
                        "30 r s'a/b' | 30 r s'a/b/c/d'");
    }
    for (const std::string filter : {"a+", "+a", "a/b+", "a/+b/c", "++", "+#"})
        check_malformed(gateway, filter);
}

TEST_CASE(
    "3.1.1 [MQTT-4.7.2-1] filters that begin with a wildcard select no topic that begins "
    "with $") {
    for (const std::string filter : {"#", "+", "+/#", "+/broker", "+/+"})
        for (const std::string topic : {"$SYS", "$SYS/broker", "$", "$x/broker"}) {
            CAPTURE(filter);
            CAPTURE(topic);
            CHECK(!topic_matches(filter, topic));
        }
    CHECK(topic_matches("$SYS/#", "$SYS/broker"));
    CHECK(topic_matches("$SYS/+", "$SYS/broker"));
    CHECK(topic_matches("+/$SYS", "a/$SYS"));

    // And nobody can bring such a topic in.
    Gateway gateway;
    auto watcher = clean_session(gateway, at_home(0, "watcher"));
    watcher.send("82 r k1 s'+' 00 s'+/broker' 00").expect("90 04 k1 00 00");
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        sender.send("30 r s'$SYS' 'no' | 30 r s'$SYS/broker' 'no' | 30 r s'x' 'yes'");
        watcher.expect("30 r s'x' 'yes'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-4.7.3-1] an empty topic or filter closes the connection") {
    Gateway gateway;
    clean_session(gateway, "p").send("30 r s'' 'hi'").expect_close();
    clean_session(gateway, "p").send("32 r s'' k1 'hi'").expect_close();
    check_malformed(gateway, "");
    auto c = clean_session(gateway, "p");
    subscribe(c, "/", 0);  // two levels, both empty, but one character
    c.send("30 r s'/' 'hi'").expect("30 r s'/' 'hi'");
}

TEST_CASE("3.1.1 [MQTT-4.7.3-3] topics and filters of 65,535 bytes are taken whole") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u}) {
        auto receiver = clean_session(gateway, at_home(shard, "receiver"));
        const std::string letter = shard ? " s'y'" : " s'x'";
        const auto longest = letter + "*65535 ";
        receiver.send("82 r k1" + longest + "00").expect("90 03 k1 00");
        sender.send("30 r" + letter + "*65534 'no' | 30 r" + longest + "'yes'");
        receiver.expect("30 r" + longest + "'yes'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-4.7.3-4] topics are compared byte by byte") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        Selection selection(gateway, shard);
        selection.check("Room/a", "30 r s'room/a' | 30 r s'Room/A' | 30 r s'Room/a'",
                        "30 r s'Room/a'");
        selection.check("a//b", "30 r s'a/b' | 30 r s'a///b' | 30 r s'a//b'", "30 r s'a//b'");
        selection.check("a b", "30 r s'ab' | 30 r s'a  b' | 30 r s' a b' | 30 r s'a b'",
                        "30 r s'a b'");
        selection.check("a", "30 r s'a ' | 30 r s'a/' | 30 r s'/a' | 30 r s'./a' | 30 r s'a'",
                        "30 r s'a'");
        // e acute, composed and decomposed
        selection.check("\xc3\xa9", "30 r s3 'e' cc81 | 30 r s'E' | 30 r s2 c3a9", "30 r s2 c3a9");
        selection.check("e\xcc\x81", "30 r s2 c3a9 | 30 r s3 'e' cc81", "30 r s3 'e' cc81");
    }
}

TEST_CASE("3.1.1 [MQTT-4.8.0-1] a violation of the protocol closes the connection") {
    Gateway gateway;
    for (const std::string packet :
         {"20 02 00 00",                                         // packets that only a server sends
          "90 03 k1 00", "b0 02 k1", "d0 00", "00 00", "f0 00",  // packets that 3.1.1 does not know
          "40 00", "40 01 00", "40 03 k1 00", "50 03 k1 00", "62 01 00", "70 03 k1 00", "c0 01 00",
          "e0 01 00",           // wrong sizes
          "30 ff ff ff ff 01",  // a remaining length of five bytes
          "10 r s'MQTT' 04 02 k10 s'p'"}) {
        CAPTURE(packet);
        clean_session(gateway, "p").send(packet).expect_close();
    }
}

TEST_CASE("3.1.1 [MQTT-4.8.0-1] an acknowledgement of the wrong QoS closes the connection") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u})
        for (const std::string wrong : {"50 02 k1", "40 02 k2"}) {
            auto c = clean_session(gateway, at_home(shard, "p"));
            subscribe(c, "x", 2);
            publish(sender, 1, "x", "one");
            publish(sender, 2, "x", "two");
            c.expect("32 r s'x' k1 'one' | 34 r s'x' k2 'two'");
            c.send(wrong).expect_close();
        }
}

TEST_CASE(
    "3.1.1 [MQTT-4.8.0-2] a packet that is too large costs its sender the connection, and "
    "nobody else") {
    Gateway gateway([](Config& config) { config.max_packet_size = 1000; });
    for (const unsigned shard : {0u, 1u}) {
        auto watcher = clean_session(gateway, at_home(shard, "watcher"));
        subscribe(watcher, "x", 0);
        auto greedy = clean_session(gateway, at_home(0, "greedy"));
        greedy.send("30 r s'x' 'z'*900").send("30 r2000 s'x'").expect_close();
        auto sender = clean_session(gateway, at_home(1, "sender"));
        publish(sender, 0, "x", "hi");
        watcher.expect("30 r s'x' 'z'*900 | 30 r s'x' 'hi'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-7.1.1-1] a connection is one stream of bytes, however they are cut") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        // Each round has its own topic: the messages of one may still be on their way to the other
        // shard when the next begins.
        const auto topic = " s'x" + std::to_string(shard) + "' ";
        Conversation c(gateway);
        for (const char byte : wire("10 r s'MQTT' 04 02 k10 s'" + name + "' | 82 r k1" + topic +
                                    "01 | 32 r s'y' k2 'hi' | c0 00"))
            c.send_bytes({&byte, 1});
        c.expect("20 02 00 00 | 90 03 k1 01 | 40 02 k2 | d0 00");

        auto sender = clean_session(gateway, at_home(0, "sender"));
        std::string all;
        for (int i = 0; i < 20; ++i)
            all += wire("30 r" + topic + "'" + std::to_string(i) + "' 'z'*" +
                        std::to_string(i * 5'000));
        sender.send_bytes(all);
        std::string got;
        while (got.size() < all.size()) got += c.packet();
        CHECK(got == all);
    }
}
