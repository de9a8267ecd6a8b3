#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

namespace {

/// What a new client gets that subscribes to this at QoS 2, on either shard.
void check_retained(const Gateway& gateway, const std::string& topic, const std::string& expected) {
    for (const unsigned shard : {0u, 1u}) {
        CAPTURE(shard);
        auto late = clean_session(gateway, at_home(shard, "late"));
        subscribe(late, topic, 2);
        late.expect(expected).expect_nothing();
    }
}

}  // namespace

TEST_CASE(
    "3.1.1 [MQTT-3.3.1-5] [MQTT-3.3.1-8] a retained message is kept with its QoS, and comes "
    "with the retain flag") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        publish_retained(sender, 0, "zero", "0");
        publish_retained(sender, 1, "one", "1");
        publish_retained(sender, 2, "two", "2");
        check_retained(gateway, "zero", "31 r s'zero' '0'");
        check_retained(gateway, "one", "33 r s'one' k1 '1'");
        check_retained(gateway, "two", "35 r s'two' k1 '2'");
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.1-6] a new subscription gets the last retained message of each topic "
    "that matches") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    auto other = clean_session(gateway, at_home(1, "other"));
    publish_retained(sender, 1, "a/1", "old");
    publish_retained(sender, 1, "a/1", "new");
    publish_retained(other, 1, "a/2", "second");
    publish_retained(other, 1, "a", "top");
    publish_retained(sender, 1, "b/1", "elsewhere");
    for (const unsigned shard : {0u, 1u}) {
        const auto all = [&](const std::string& filter, std::size_t count) {
            auto late = clean_session(gateway, at_home(shard, "late"));
            subscribe(late, filter, 0);
            std::vector<std::string> got;
            for (std::size_t i = 0; i < count; ++i) {
                const auto packet = late.packet();
                const Publish message = published(packet);
                CHECK(message.retain);
                got.push_back(std::string(message.topic) + "=" + std::string(message.payload));
            }
            late.expect_nothing();
            std::sort(got.begin(), got.end());
            return got;
        };
        using All = std::vector<std::string>;
        CHECK(all("a/1", 1) == All{"a/1=new"});
        CHECK(all("a/+", 2) == All{"a/1=new", "a/2=second"});
        CHECK(all("a/#", 3) == All{"a/1=new", "a/2=second", "a=top"});
        CHECK(all("+/1", 2) == All{"a/1=new", "b/1=elsewhere"});
        CHECK(all("a/3", 0).empty());
    }
}

TEST_CASE("3.1.1 [MQTT-3.3.1-7] a retained message of QoS 0 takes the place of the one before") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        for (const unsigned qos : {0u, 1u, 2u}) {
            publish_retained(sender, qos, "x", "before");
            publish_retained(sender, 0, "x", "after");
            check_retained(gateway, "x", "31 r s'x' 'after'");
        }
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.1-9] a subscription that was there gets retained messages without the "
    "flag") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u}) {
        auto receiver = clean_session(gateway, at_home(shard, "receiver"));
        subscribe(receiver, "fresh/" + std::to_string(shard), 2);
        const auto topic = "fresh/" + std::to_string(shard);
        publish_retained(sender, 0, topic, "0");
        publish_retained(sender, 1, topic, "1");
        publish_retained(sender, 2, topic, "2");
        const auto s = " r s'" + topic + "' ";
        receiver.expect("30" + s + "'0' | 32" + s + "k1 '1' | 34" + s + "k2 '2'").expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.1-10] [MQTT-3.3.1-11] an empty retained message is delivered, deletes "
    "what was retained and is not retained itself") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (const unsigned qos : {0u, 1u, 2u}) {
            auto sender = clean_session(gateway, at_home(shard, "sender"));
            publish_retained(sender, 1, "x", "kept");
            auto receiver = clean_session(gateway, at_home(0, "receiver"));
            subscribe(receiver, "x", 0);
            receiver.expect("31 r s'x' 'kept'");
            publish_retained(sender, qos, "x", "");
            receiver.expect("30 r s'x'").expect_nothing();
            check_retained(gateway, "x", "");
            check_retained(gateway, "+", "");
            publish_retained(sender, qos, "x", "");  // where there is none
            check_retained(gateway, "x", "");
        }
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.1-12] a message without the retain flag is not retained and replaces "
    "nothing") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        for (const unsigned qos : {0u, 1u, 2u}) {
            publish(sender, qos, "plain", "gone");
            check_retained(gateway, "plain", "");
            publish_retained(sender, 1, "x", "kept");
            publish(sender, qos, "x", "passing");
            publish(sender, qos, "x", "");
            check_retained(gateway, "x", "33 r s'x' k1 'kept'");
        }
    }
}

TEST_CASE("3.1.1 [MQTT-3.1.2-7] a retained message outlives the session of its publisher") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "sender");
        auto sender = new_session(gateway, name);
        publish_retained(sender, 1, "x", "kept");
        leave(sender);
        check_retained(gateway, "x", "33 r s'x' k1 'kept'");
        auto clean = clean_session(gateway, name);  // ends the old one
        publish_retained(clean, 1, "y", "too");
        leave(clean);
        check_retained(gateway, "x", "33 r s'x' k1 'kept'");
        check_retained(gateway, "y", "33 r s'y' k1 'too'");
    }
}
