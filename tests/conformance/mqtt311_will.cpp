#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

namespace {

/// Connects with a will: 'gone', for the topic 'will'. The flags are those of the CONNECT.
Conversation with_will(const Gateway& gateway, const std::string& client,
                       const std::string& flags = "06") {
    Conversation c(gateway);
    c.send("10 r s'MQTT' 04 " + flags + " k60 s'" + client + "' s'will' s'gone'")
        .expect("20 02 00 00");
    return c;
}

}  // namespace

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-8] a will is published when its connection ends without a "
    "DISCONNECT") {
    Gateway gateway;
    auto watcher = clean_session(gateway, at_home(0, "watcher"));
    subscribe(watcher, "will", 0);
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        const auto check = [&](const std::function<void(Conversation&)>& end) {
            auto c = with_will(gateway, name);
            watcher.expect_nothing();
            end(c);
            watcher.expect("30 r s'will' 'gone'").expect_nothing();
        };
        check([](Conversation& c) { c.close(); });
        check([](Conversation& c) { c.reset(); });
        check([](Conversation& c) { c.close_writing(); });
        check([](Conversation& c) { c.send("30 10 's'").close(); });     // within a packet
        check([](Conversation& c) { c.send("c1 00").expect_close(); });  // malformed
        check([](Conversation& c) { c.send("d0 00").expect_close(); });  // a violation
        check([&](Conversation& c) {                                     // taken over
            auto next = clean_session(gateway, name);
            c.expect_close();
            leave(next);
        });
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-9] the payload of a CONNECT with the Will Flag has both topic and "
    "message") {
    Gateway gateway;
    Conversation(gateway).send("10 r s'MQTT' 04 06 k10 s'p'").expect_close();
    Conversation(gateway).send("10 r s'MQTT' 04 06 k10 s'p' s'will'").expect_close();
    // An empty message is one.
    auto watcher = clean_session(gateway, "watcher");
    subscribe(watcher, "will", 0);
    Conversation c(gateway);
    c.send("10 r s'MQTT' 04 06 k10 s'p' s'will' s''").expect("20 02 00 00").close();
    watcher.expect("30 r s'will'").expect_nothing();
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-9] [MQTT-3.1.2-14] a will is published with the QoS 0, 1 or 2 that it "
    "was given") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        const auto check = [&](const char* flags, const char* will) {
            auto watcher = clean_session(gateway, at_home(0, "watcher"));
            subscribe(watcher, "will", 2);
            auto c = with_will(gateway, name, flags);
            c.close();
            watcher.expect(will);
        };
        check("06", "30 r s'will' 'gone'");
        check("0e", "32 r s'will' k1 'gone'");
        check("16", "34 r s'will' k1 'gone'");
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-10] [MQTT-3.14.4-3] a will that was published or discarded is never "
    "published again") {
    Gateway gateway;
    auto watcher = clean_session(gateway, at_home(0, "watcher"));
    subscribe(watcher, "will", 0);
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto first = with_will(gateway, name, "04");  // CleanSession 0
        first.close();
        watcher.expect("30 r s'will' 'gone'");
        auto second = kept_session(gateway, name);  // without a will
        second.reset();
        Conversation third(gateway);
        third.send("10 r s'MQTT' 04 04 k10 s'" + name + "' s'will' s'gone'").expect("20 02 01 00");
        leave(third);
        auto fourth = kept_session(gateway, name);
        fourth.reset();
        auto fifth = clean_session(gateway, name);
        leave(fifth);
        publish(watcher, 0, "other", "");
        watcher.expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.14.4-3] a DISCONNECT discards the will") {
    Gateway gateway;
    auto watcher = clean_session(gateway, at_home(0, "watcher"));
    subscribe(watcher, "will", 0);
    for (const unsigned shard : {0u, 1u})
        for (const std::string flags : {"06", "0e", "16", "26", "04"}) {
            CAPTURE(flags);
            auto c = with_will(gateway, at_home(shard, "p" + flags), flags);
            leave(c);
        }
    auto sender = clean_session(gateway, at_home(1, "sender"));
    publish(sender, 0, "will", "the first");
    watcher.expect("30 r s'will' 'the first'").expect_nothing();
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-11] [MQTT-3.1.2-13] [MQTT-3.1.2-15] without the Will Flag, QoS and "
    "retain flag of a will close the connection, and so does a will") {
    Gateway gateway;
    for (const std::string flags : {"0a", "12", "1a", "22", "2a", "32", "08", "20"}) {
        CAPTURE(flags);
        Conversation(gateway).send("10 r s'MQTT' 04 " + flags + " k10 s'p'").expect_close();
    }
    Conversation(gateway).send("10 r s'MQTT' 04 02 k10 s'p' s'will' s'gone'").expect_close();
}

TEST_CASE("3.1.1 [MQTT-3.1.2-12] without the Will Flag, nothing is published at the end") {
    Gateway gateway;
    auto watcher = clean_session(gateway, at_home(0, "watcher"));
    watcher.send("82 r k1 s'#' 00 s'will' 00").expect("90 04 k1 00 00");
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto c = clean_session(gateway, name);
        c.reset();
        auto d = clean_session(gateway, name);
        d.send("c1 00").expect_close();
    }
    auto sender = clean_session(gateway, at_home(1, "sender"));
    publish(sender, 0, "last", "");
    while (true) {  // nothing but presence
        const auto packet = watcher.packet();
        const std::string topic(published(packet).topic);
        if (topic == "last") break;
        CHECK(topic.starts_with("presence/"));
    }
}

TEST_CASE("3.1.1 [MQTT-3.1.2-14] a will of QoS 3 closes the connection") {
    Gateway gateway;
    Conversation(gateway).send("10 r s'MQTT' 04 1e k10 s'p' s'will' s'gone'").expect_close();
    Conversation(gateway).send("10 r s'MQTT' 04 3e k10 s'p' s'will' s'gone'").expect_close();
}

TEST_CASE("3.1.1 [MQTT-3.1.2-16] without Will Retain, a will is not retained") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto watcher = clean_session(gateway, at_home(0, "watcher"));
        subscribe(watcher, "will", 0);
        auto c = with_will(gateway, at_home(shard, "p"));
        c.close();
        watcher.expect("30 r s'will' 'gone'");
        for (const unsigned later : {0u, 1u}) {
            auto late = clean_session(gateway, at_home(later, "late"));
            subscribe(late, "will", 0);
            late.expect_nothing();
        }
    }
}

TEST_CASE("3.1.1 [MQTT-3.1.2-17] with Will Retain, a will is retained") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto watcher = clean_session(gateway, at_home(0, "watcher"));
        auto c = with_will(gateway, at_home(shard, "p"), "2e");
        subscribe(watcher, "will", 1);
        watcher.expect_nothing();
        c.close();
        watcher.expect("32 r s'will' k1 'gone'");
        for (const unsigned later : {0u, 1u}) {
            auto late = clean_session(gateway, at_home(later, "late"));
            subscribe(late, "will", 1);
            late.expect("33 r s'will' k1 'gone'").expect_nothing();
        }
        auto cleaner = clean_session(gateway, "cleaner");
        publish_retained(cleaner, 1, "will", "");
    }
}
