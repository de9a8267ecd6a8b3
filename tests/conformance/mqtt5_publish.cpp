// MQTT 5.0, section 3.3: PUBLISH, except for its RETAIN flag.

#include <algorithm>
#include <map>

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

namespace {

/// One of everything that a sender may say about a message, user properties in an order of theirs.
const std::string all_properties =
    "01 01 03 s'text/plain' 08 s'reply/here' 09 s4 01000304 26 s'z' s'1' 26 s'a' s'2' 26 s'z' s'1'";

/// What a message tells its receiver, without what is the gateway's: in the order of the wire for
/// user properties, which is all the order that counts.
struct Said {
    std::map<Property, std::string> once;
    std::vector<std::string> user;

    explicit Said(const std::string& packet) {
        published(packet, v5).properties.for_each([&](const PropertyValue& value) {
            if (value.id == Property::user_property)
                user.push_back(std::string(value.key) + "=" + std::string(value.text));
            else
                once[value.id] =
                    value.text.empty() ? std::to_string(value.number) : std::string(value.text);
        });
    }
};

void check_unaltered(const std::string& packet) {
    const Said said(packet);
    CHECK(said.once.size() == 4);
    const auto value = [&](Property property) {
        const auto found = said.once.find(property);
        return found == said.once.end() ? "" : found->second;
    };
    CHECK(value(Property::payload_format_indicator) == "1");
    CHECK(value(Property::content_type) == "text/plain");
    CHECK(value(Property::response_topic) == "reply/here");
    CHECK(value(Property::correlation_data) == std::string("\1\0\3\4", 4));
    CHECK(said.user == std::vector<std::string>{"z=1", "a=2", "z=1"});
}

/// The names behind the aliases of one connection, as a client keeps them.
class Aliases {
public:
    explicit Aliases(std::uint32_t maximum) : maximum_(maximum) {}

    /// The topic of the next message; its alias must be one that the client allowed.
    std::string topic(const std::string& packet) {
        const Publish publish = published(packet, v5);
        const auto alias = publish.properties.number(Property::topic_alias);
        if (!alias) return std::string(publish.topic);
        CHECK(*alias >= 1);
        CHECK(*alias <= maximum_);
        if (!publish.topic.empty()) topics_[*alias] = publish.topic;
        return topics_[*alias];
    }

private:
    std::uint32_t maximum_;
    std::map<std::uint32_t, std::string> topics_;
};

}  // namespace

TEST_CASE(
    "5.0 [MQTT-3.3.1-1] [MQTT-4.4.0-1] a message that is sent again has DUP and its old "
    "identifier") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto first = join(gateway, connect(client, kept));
        subscribe(first, "x", "02");
        auto sender = join(gateway, connect("sender"));
        sender.send("32 r s'x' k1 [ ] 'one' | 34 r s'x' k2 [ ] 'two'")
            .expect("40 02 k1 | 50 02 k2");
        sender.send("62 02 k2").expect("70 02 k2");
        first.expect("32 r s'x' k1 [ ] 'one' | 34 r s'x' k2 [ ] 'two'").expect_nothing();
        vanish(first);
        auto again = resume(gateway, client);
        again.expect("3a r s'x' k1 [ ] 'one' | 3c r s'x' k2 [ ] 'two'").expect_nothing();
    }
}

TEST_CASE("5.0 [MQTT-3.3.1-3] the DUP of a publisher is not passed on to the subscriber") {
    Gateway gateway;
    auto sender = join(gateway, connect(at_home(0, "sender")));
    auto receiver = join(gateway, connect(at_home(1, "receiver")));
    subscribe(receiver, "x", "02");
    sender.send("3a r s'x' k1 [ ] | 3c r s'x' k2 [ ]").expect("40 02 k1 | 50 02 k2");
    sender.send("62 02 k2").expect("70 02 k2");
    receiver.expect("32 r s'x' k1 [ ] | 34 r s'x' k2 [ ]").expect_nothing();
}

TEST_CASE("5.0 [MQTT-3.3.1-4] QoS 3 is malformed") {
    Gateway gateway;
    check_ends(gateway, "36 r s'x' k1 [ ]", Reason::malformed_packet);
    check_ends(gateway, "3e r s'x' k1 [ ]", Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.3.2-1] a message has a topic") {
    Gateway gateway;
    check_ends(gateway, "30 00", Reason::malformed_packet);
    check_ends(gateway, "30 r s9 'short'", Reason::malformed_packet);
}

TEST_CASE(
    "5.0 [MQTT-3.3.2-2] [MQTT-4.7.0-1] a topic with a wildcard ends the connection with 0x90") {
    Gateway gateway;
    for (const std::string topic : {"#", "+", "a/#", "a/+/b", "a+", "a#"})
        for (const std::string& head : {"30 r s'" + topic + "'", "32 r s'" + topic + "' k1"})
            check_ends(gateway, head + " [ ]", Reason::topic_name_invalid);
}

TEST_CASE("5.0 [MQTT-3.3.2-3] nobody gets a topic that does not match a filter of theirs") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        const auto selected = [&](const std::string& filter) {
            auto receiver = join(gateway, connect(at_home(shard, "receiver")));
            subscribe(receiver, filter, "00");
            subscribe(receiver, "the/end", "00");
            for (const char* topic : {"a", "a/", "/a", "a/b", "a//b", "a/b/c", "A/b", "b"})
                sender.send("30 r s'" + std::string(topic) + "' [ ]");
            sender.send("30 r s'the/end' [ ]");
            std::string topics;
            while (true) {
                const auto packet = receiver.packet();
                const auto topic = published(packet, v5).topic;
                if (topic == "the/end") return topics;
                topics += std::string(topic) + " ";
            }
        };
        CHECK(selected("a/b") == "a/b ");
        CHECK(selected("a/+") == "a/ a/b ");
        CHECK(selected("a/#") == "a a/ a/b a//b a/b/c ");
        CHECK(selected("+/b") == "a/b A/b ");
        CHECK(selected("/+") == "/a ");
        CHECK(selected("+/+/+") == "a//b a/b/c ");
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] "
    "[MQTT-3.3.2-20] what a sender says of a message arrives unaltered, on every way") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        CAPTURE(shard);
        const auto topic = "x/" + std::to_string(shard);
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto live = join(gateway, connect(at_home(shard, "live")));
        auto away = join(gateway, connect(at_home(shard, "away"), kept));
        subscribe(live, topic, "02");
        subscribe(away, topic, "02");
        leave(away);
        sender.send("33 r s'" + topic + "' k1 [ " + all_properties + " ] 'hi'").expect("40 02 k1");
        check_unaltered(live.packet());

        auto back = resume(gateway, at_home(shard, "away"));
        check_unaltered(back.packet());
        vanish(back);
        auto again = resume(gateway, at_home(shard, "away"));  // and once more with DUP
        check_unaltered(again.packet());

        auto later = join(gateway, connect(at_home(shard, "later")));
        subscribe(later, topic, "00");
        check_unaltered(later.packet());
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.2-5] [MQTT-3.3.2-6] a message's expiry counts down while it waits, and ends "
    "it") {
    StoppedClock clock;
    Gateway gateway;
    const auto remaining = [](const std::string& packet) {
        return published(packet, v5).properties.number(Property::message_expiry_interval);
    };
    for (const unsigned shard : {0u, 1u}) {  // in a session
        const auto topic = "s'session/" + std::to_string(shard) + "'";
        const auto client = at_home(shard, "away");
        auto away = join(gateway, connect(client, kept));
        away.send("82 r k1 [ ] " + topic + " 01").expect("90 r k1 [ ] 01");
        leave(away);
        auto sender = join(gateway, connect(at_home(shard, "sender")));
        sender.send("32 r " + topic + " k1 [ 02 w1 ] 'short' | 32 r " + topic +
                    " k2 [ 02 w60 ] 'long' | 32 r " + topic + " k3 [ ] 'for ever'");
        sender.expect("40 02 k1 | 40 02 k2 | 40 02 k3");
        gateway.pass(clock, 2000);
        auto back = resume(gateway, client);
        const auto packet = back.packet();
        CHECK(published(packet, v5).payload == "long");
        CHECK(remaining(packet) == 58u);
        const auto last = back.packet();
        CHECK(published(last, v5).payload == "for ever");
        CHECK(!remaining(last));
        back.expect_nothing();
    }
    {  // as a retained message
        auto sender = join(gateway, connect("keeper"));
        sender.send("31 r s'kept/short' [ 02 w1 ] '!' | 31 r s'kept/long' [ 02 w60 ] '!'");
        sender.expect_nothing();
        gateway.pass(clock, 2000);
        auto late = join(gateway, connect("late"));
        subscribe(late, "kept/+", "00");
        const auto packet = late.packet();
        CHECK(published(packet, v5).topic == "kept/long");
        CHECK(remaining(packet) == 58u);
        late.expect_nothing();
    }
    {  // behind a full window
        auto sender = join(gateway, connect("hasty"));
        auto slow = join(gateway, connect("slow", "21 k1"));
        subscribe(slow, "window", "01");
        sender.send(
            "32 r s'window' k1 [ ] 'first' | 32 r s'window' k2 [ 02 w1 ] 'short' | "
            "32 r s'window' k3 [ 02 w60 ] 'long'");
        sender.expect("40 02 k1 | 40 02 k2 | 40 02 k3");
        slow.expect("32 r s'window' k1 [ ] 'first'");
        gateway.pass(clock, 2000);
        slow.send("40 02 k1");
        const auto packet = slow.packet();
        CHECK(published(packet, v5).payload == "long");
        CHECK(remaining(packet) == 58u);
        slow.expect_nothing();
    }
    // nowhere
    auto c = join(gateway, connect("here"));
    subscribe(c, "now", "00");
    c.send("30 r s'now' [ 02 w60 ] '!'").expect("30 r s'now' [ 02 w60 ] '!'");
}

TEST_CASE("5.0 [MQTT-3.3.2-7] a topic alias is forgotten with its connection") {
    Gateway gateway;
    auto first = join(gateway, connect("alice", kept + " 22 k5"));
    subscribe(first, "room", "00");
    first.send("30 r s'room' [ 23 k1 ] '!' | 30 r s'' [ 23 k1 ] '!'");
    Aliases before(5);
    CHECK(before.topic(first.packet()) == "room");
    CHECK(before.topic(first.packet()) == "room");
    leave(first);

    auto second = resume(gateway, "alice", kept + " 22 k5");
    auto sender = join(gateway, connect("sender"));
    sender.send("30 r s'room' [ ] '!'");
    Aliases after(5);
    CHECK(after.topic(second.packet()) == "room");
    second.send("30 r s'' [ 23 k1 ] '!'");
    const Reason reason = disconnected(second);
    CHECK((reason == Reason::protocol_error || reason == Reason::topic_alias_invalid));
}

TEST_CASE(
    "5.0 [MQTT-3.3.2-8] [MQTT-3.3.2-9] a topic alias of 0 or above the maximum is answered with "
    "0x94") {
    Gateway gateway;
    for (const char* alias : {"0", "17", "65535"}) {
        check_ends(gateway, "30 r s'x' [ 23 k" + std::string(alias) + " ]",
                   Reason::topic_alias_invalid);
        check_ends(gateway, "30 r s'' [ 23 k" + std::string(alias) + " ]",
                   Reason::topic_alias_invalid);
    }
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-8] [MQTT-3.3.2-11] the gateway uses only "
    "those aliases that the client allows") {
    Gateway gateway;
    for (const std::uint32_t maximum : {0u, 1u, 3u, 65'535u}) {
        CAPTURE(maximum);
        const auto stated = maximum ? "22 k" + std::to_string(maximum) : std::string();
        auto receiver = join(gateway, connect("receiver", stated));
        subscribe(receiver, "room/+", "01");
        auto sender = join(gateway, connect("sender"));
        Aliases aliases(maximum);
        int k = 0;
        for (int round = 0; round < 3; ++round)
            for (int room = 0; room < 40; ++room) {
                const auto topic = "room/" + std::to_string(room % (round + 2) + room / 10);
                sender.send("32 r s'" + topic + "' k1 [ ]").expect("40 02 k1");
                const auto packet = receiver.packet();
                CHECK(aliases.topic(packet) == topic);
                receiver.send("40 02 k" + std::to_string(++k));
            }
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.2-12] the gateway takes every topic alias up to the maximum that it announced") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "room/+", "00");
    auto c = join(gateway, connect("p"));
    std::string names;
    std::string bare;
    for (int alias = 1; alias <= 16; ++alias) {
        const auto topic = "s'room/" + std::to_string(alias) + "' ";
        const auto property = "[ 23 k" + std::to_string(alias) + " ] ";
        names += wire("30 r " + topic + property + "'name'");
        bare += wire("30 r s'' " + property + "'bare'");
    }
    c.send_bytes(names + bare).expect_nothing();
    for (const char* payload : {"name", "bare"})
        for (int alias = 1; alias <= 16; ++alias)
            watcher.expect("30 r s'room/" + std::to_string(alias) + "' [ ] '" + payload + "'");
    // An alias can be given another name.
    c.send("30 r s'room/new' [ 23 k3 ] '1' | 30 r s'' [ 23 k3 ] '2'").expect_nothing();
    watcher.expect("30 r s'room/new' [ ] '1' | 30 r s'room/new' [ ] '2'").expect_nothing();
}

TEST_CASE("5.0 [MQTT-3.3.2-13] [MQTT-3.3.2-19] a response topic and a content type are UTF-8") {
    Gateway gateway;
    for (const char* property : {"08", "03"})
        for (const char* text : {"s1 ff", "s2 c080", "s3 'a' 00 'b'"})
            check_ends(gateway, "30 r s'x' [ " + std::string(property) + " " + text + " ]",
                       Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.3.2-14] a response topic with a wildcard is a protocol error") {
    Gateway gateway;
    for (const char* topic : {"#", "a/+", "a/#"})
        check_ends(gateway, "30 r s'x' [ 08 s'" + std::string(topic) + "' ]",
                   Reason::protocol_error);
}

TEST_CASE(
    "5.0 [MQTT-3.3.4-1] [MQTT-4.3.2-4] [MQTT-4.3.3-8] a message is answered as its QoS demands") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    c.send("30 r s'x' [ ]").expect_nothing();
    c.send("32 r s'x' k7 [ ]").expect("40 02 k7").expect_nothing();
    c.send("34 r s'x' k8 [ ]").expect("50 02 k8").expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-3.3.4-2] [MQTT-3.3.4-3] [MQTT-3.3.4-4] overlapping subscriptions give one copy, of "
    "the highest QoS, with all identifiers") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto receiver = join(gateway, connect(at_home(shard, "receiver")));
        subscribe(receiver, "a/b", "00", "0b r5");
        subscribe(receiver, "a/+", "02", "0b r300");
        subscribe(receiver, "a/#", "01");
        subscribe(receiver, "a/b/#", "01", "0b r268435455");
        subscribe(receiver, "a/c", "02", "0b r9");
        sender.send("34 r s'a/b' k1 [ ] 'hi'").expect("50 02 k1").send("62 02 k1");
        const auto packet = receiver.packet();
        const Publish publish = published(packet, v5);
        CHECK(publish.qos == QoS::exactly_once);
        std::vector<std::uint32_t> identifiers;
        publish.properties.for_each([&](const PropertyValue& property) {
            CHECK(property.id == Property::subscription_identifier);
            identifiers.push_back(property.number);
        });
        std::sort(identifiers.begin(), identifiers.end());
        CHECK(identifiers == std::vector<std::uint32_t>{5, 300, 268'435'455});
        receiver.expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.4-6] a client's message with a subscription identifier is a protocol error") {
    Gateway gateway;
    check_ends(gateway, "30 r s'x' [ 0b 01 ]", Reason::protocol_error);
    check_ends(gateway, "32 r s'x' k1 [ 0b 01 ]", Reason::protocol_error);
}

TEST_CASE(
    "5.0 [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-4.13.1-1] a payload that is not the text it claims to "
    "be is answered with 0x99") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "x", "00");
    auto c = join(gateway, connect("p"));
    const auto one = c.send("32 r s'x' k1 [ 01 01 ] ff").packet();
    CHECK(read_as<Puback>(one).reason == Reason::payload_format_invalid);
    const auto two = c.send("34 r s'x' k2 [ 01 01 ] c328").packet();
    CHECK(read_as<Pubrec>(two).reason == Reason::payload_format_invalid);
    c.send("32 r s'x' k1 [ 01 01 ] c3a9").expect("40 02 k1");
    watcher.expect("30 r s'x' [ 01 01 ] c3a9").expect_nothing();
    c.send("30 r s'x' [ 01 01 ] ff").expect_close(Reason::payload_format_invalid);
}
