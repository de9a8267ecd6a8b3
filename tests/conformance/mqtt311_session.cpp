#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-4] [MQTT-4.1.0-1] the subscriptions of a kept session outlive its "
    "connections") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        c.send("82 r k1 s'a' 00 s'b/+' 01 s'c/#' 02 s'gone' 00").expect("90 06 k1 00 01 02 00");
        c.send("a2 r k2 s'gone'").expect("b0 02 k2");
        leave(c);
        for (int round = 0; round < 3; ++round) {
            auto again = kept_session(gateway, name);
            publish(sender, 2, "gone", "no");
            publish(sender, 2, "a", "0");
            again.expect("30 r s'a' '0'");
            for (const std::string topic : {"b/x", "c"}) {
                publish(sender, 1, topic, "1");
                const auto packet = again.packet();
                const Publish message = published(packet);
                CHECK(message.topic == topic);
                CHECK(message.qos == QoS::at_least_once);
                CHECK(!message.dup);
                again.send("40 02 k" + std::to_string(message.packet_id));
            }
            again.expect_nothing();
            if (round == 1)
                leave(again);
            else
                again.reset();  // without a farewell
        }
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-5] [MQTT-4.5.0-1] messages of QoS 1 and 2 wait for a disconnected "
    "subscriber") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (const unsigned from : {0u, 1u}) {
            const auto name = at_home(shard, "p" + std::to_string(from));
            auto c = new_session(gateway, name);
            c.send("82 r k1 s'x' 02 s'low' 01").expect("90 04 k1 02 01");
            leave(c);
            auto sender = clean_session(gateway, at_home(from, "sender"));
            publish(sender, 1, "x", "one");
            publish(sender, 2, "x", "two");
            publish(sender, 2, "low", "three");
            publish(sender, 2, "other", "no");
            leave(sender);
            auto again = kept_session(gateway, name);
            again.expect("32 r s'x' k1 'one' | 34 r s'x' k2 'two' | 32 r s'low' k3 'three'");
            again.send("40 02 k1 | 40 02 k3 | 50 02 k2").expect("62 02 k2");
            again.send("70 02 k2").expect_nothing();
            leave(again);
            kept_session(gateway, name).expect_nothing();
        }
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-6] [MQTT-3.1.4-3] CleanSession 1 throws away subscriptions and messages "
    "that were kept") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto kept = new_session(gateway, name);
        subscribe(kept, "x", 2);
        publish(sender, 1, "x", "in flight");
        kept.expect("32 r s'x' k1 'in flight'");
        leave(kept);
        publish(sender, 2, "x", "waiting");
        auto clean = clean_session(gateway, name);
        publish(sender, 2, "x", "no");
        clean.expect_nothing();
        leave(clean);
        auto fresh = new_session(gateway, name);
        publish(sender, 2, "x", "no");
        fresh.expect_nothing();
        leave(fresh);
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-6] a session of CleanSession 1 ends with its connection, however that "
    "ends") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (const bool farewell : {true, false}) {
            const auto name = at_home(shard, "p" + std::to_string(farewell));
            auto sender = clean_session(gateway, at_home(0, "sender"));
            auto clean = clean_session(gateway, name);
            subscribe(clean, "x", 2);
            publish(sender, 1, "x", "in flight");
            clean.expect("32 r s'x' k1 'in flight'");
            clean.send("34 r s'y' k7 'hi'").expect("50 02 k7");
            if (farewell)
                leave(clean);
            else
                clean.send("c1 00").expect_close();
            publish(sender, 2, "x", "no");
            auto next = new_session(gateway, name);
            next.expect_nothing();
            publish(sender, 2, "x", "no");
            next.expect_nothing();
            leave(next);
        }
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-6] a connection that is taken over hands nothing of its clean session "
    "on") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto clean = clean_session(gateway, name);
        subscribe(clean, "x", 1);
        publish(sender, 1, "x", "in flight");
        clean.expect("32 r s'x' k1 'in flight'");
        auto next = new_session(gateway, name);
        clean.expect_close();
        publish(sender, 1, "x", "no");
        next.expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-4.1.0-1] [MQTT-4.3.3-2] a QoS 2 message that was not released is remembered "
    "from one connection to the next") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto receiver = clean_session(gateway, at_home(0, "receiver"));
        subscribe(receiver, "x", 2);
        auto c = new_session(gateway, name);
        c.send("34 r s'x' k7 'once'").expect("50 02 k7");
        leave(c);
        auto again = kept_session(gateway, name);
        again.send("3c r s'x' k7 'once'").expect("50 02 k7");
        leave(again);
        auto last = kept_session(gateway, name);
        last.send("62 02 k7").expect("70 02 k7");
        last.send("34 r s'x' k7 'another'").expect("50 02 k7");
        last.send("62 02 k7").expect("70 02 k7");
        receiver.expect("34 r s'x' k1 'once' | 34 r s'x' k2 'another'").expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-4.1.0-2] a session lasts while it is connected, whatever happens to older "
    "connections of it") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (const bool kept : {false, true}) {
            const auto name = at_home(shard, "p" + std::to_string(kept));
            auto sender = clean_session(gateway, at_home(0, "sender"));
            auto first = kept ? new_session(gateway, name) : clean_session(gateway, name);
            subscribe(first, "x", 1);
            auto second = kept ? kept_session(gateway, name) : clean_session(gateway, name);
            if (!kept) subscribe(second, "x", 1);
            first.expect_close().reset();
            for (int i = 1; i <= 3; ++i) {
                const auto id = "k" + std::to_string(i);
                publish(sender, 1, "x", "hi");
                second.expect("32 r s'x' " + id + " 'hi'").send("40 02 " + id).expect_nothing();
            }
        }
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.1-1] [MQTT-4.4.0-1] [MQTT-4.3.2-1] what was not acknowledged comes again "
    "on return, with DUP and its identifier") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (const bool farewell : {true, false}) {
            const auto name = at_home(shard, "p" + std::to_string(farewell));
            auto sender = clean_session(gateway, at_home(0, "sender"));
            auto c = new_session(gateway, name);
            subscribe(c, "x", 2);
            publish(sender, 1, "x", "one");
            publish(sender, 2, "x", "two");
            publish(sender, 0, "x", "zero");
            c.expect("32 r s'x' k1 'one' | 34 r s'x' k2 'two' | 30 r s'x' 'zero'");
            if (farewell)
                leave(c);
            else
                c.reset();
            for (int round = 0; round < 2; ++round) {
                auto again = kept_session(gateway, name);
                again.expect("3a r s'x' k1 'one' | 3c r s'x' k2 'two'").expect_nothing();
                leave(again);
            }
            auto last = kept_session(gateway, name);
            last.expect("3a r s'x' k1 'one' | 3c r s'x' k2 'two'").send("40 02 k1");
            complete(last, "k2");
            last.expect_nothing();
            leave(last);
            kept_session(gateway, name).expect_nothing();
        }
}

TEST_CASE(
    "3.1.1 [MQTT-4.4.0-1] [MQTT-4.3.3-1] a PUBREL without its PUBCOMP is sent again on return, "
    "and its PUBLISH is not") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        subscribe(c, "x", 2);
        publish(sender, 2, "x", "one");
        publish(sender, 2, "x", "two");
        c.expect("34 r s'x' k1 'one' | 34 r s'x' k2 'two'");
        c.send("50 02 k1 | 50 02 k2").expect("62 02 k1 | 62 02 k2");
        c.send("70 02 k1");
        leave(c);
        auto again = kept_session(gateway, name);
        again.expect("62 02 k2").expect_nothing();
        leave(again);
        auto last = kept_session(gateway, name);
        last.expect("62 02 k2").send("70 02 k2").expect_nothing();
        leave(last);
        kept_session(gateway, name).expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-4.4.0-1] a client can resume its session while its old connection is still open") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto first = new_session(gateway, name);
        subscribe(first, "x", 2);
        publish(sender, 1, "x", "one");
        publish(sender, 2, "x", "two");
        first.expect("32 r s'x' k1 'one' | 34 r s'x' k2 'two'");
        auto second = kept_session(gateway, name);
        second.expect("3a r s'x' k1 'one' | 3c r s'x' k2 'two'").send("40 02 k1");
        complete(second, "k2");
        second.expect_nothing();
        first.expect_close();
    }
}

TEST_CASE("3.1.1 [MQTT-4.6.0-1] what is sent again keeps its order, and what waited comes after") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        subscribe(c, "x", 2);
        for (int i = 1; i <= 6; ++i) publish(sender, i % 2 ? 1 : 2, "x", std::to_string(i));
        c.expect(
            "32 r s'x' k1 '1' | 34 r s'x' k2 '2' | 32 r s'x' k3 '3' | 34 r s'x' k4 '4' | "
            "32 r s'x' k5 '5' | 34 r s'x' k6 '6'");
        c.send("40 02 k3");
        complete(c, "k4");
        leave(c);
        publish(sender, 1, "x", "7");
        publish(sender, 2, "x", "8");
        auto again = kept_session(gateway, name);
        again.expect("3a r s'x' k1 '1' | 3c r s'x' k2 '2' | 3a r s'x' k5 '5' | 3c r s'x' k6 '6'");
        for (const std::string payload : {"7", "8"}) {
            const auto packet = again.packet();
            CHECK(published(packet).payload == payload);
            CHECK(!published(packet).dup);
        }
        again.expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-4.5.0-1] a message is added to the session of every subscriber, here or away") {
    Gateway gateway;
    for (const unsigned from : {0u, 1u}) {
        std::vector<std::string> away;
        std::vector<Conversation> here;
        for (const unsigned shard : {0u, 1u})
            for (const std::string filter : {"a/b", "a/+", "a/#", "+/b"}) {
                const auto name =
                    at_home(shard, "s" + std::to_string(from) + std::to_string(away.size()) + "-");
                auto leaver = new_session(gateway, name);
                subscribe(leaver, filter, 1);
                leave(leaver);
                away.push_back(name);
                here.push_back(clean_session(gateway, at_home(shard, "here" + name)));
                subscribe(here.back(), filter, 2);
            }
        auto stranger = clean_session(gateway, "stranger");
        subscribe(stranger, "a/c", 2);
        auto sender = clean_session(gateway, at_home(from, "sender"));
        publish(sender, 1, "a/b", "hi");
        for (auto& c : here) c.expect("32 r s'a/b' k1 'hi'").send("40 02 k1").expect_nothing();
        for (const auto& name : away) {
            auto c = kept_session(gateway, name);
            c.expect("32 r s'a/b' k1 'hi'").send("40 02 k1").expect_nothing();
            leave(c);
            auto done = clean_session(gateway, name);  // so that the next round begins anew
            leave(done);
        }
        stranger.expect_nothing();
    }
}
