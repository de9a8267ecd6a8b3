// MQTT 5.0, sections 3.1.2.5 and 3.1.3.2: the will. The whole table of when one is sent is in
// tests/will_test.cpp.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

namespace {

/// A client with a will of these properties, to the topic of its name.
Conversation join_with_will(const Gateway& gateway, const std::string& client,
                            const std::string& properties, const std::string& will_properties,
                            const std::string& flags = "06") {
    return join(gateway, connect(client, properties, flags,
                                 "[ " + will_properties + " ] s'" + client + "' s'gone'"));
}

}  // namespace

TEST_CASE(
    "5.0 [MQTT-3.1.2-7] [MQTT-3.1.2-8] [MQTT-3.1.2-10] a will is kept with its session, sent when "
    "the connection is lost, and only once") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        const auto will = "30 r s'" + client + "' [ ] 'gone'";
        auto watcher = join(gateway, connect(at_home(1 - shard, "watcher")));
        subscribe(watcher, client, "00");
        auto c = join_with_will(gateway, client, kept, "");
        watcher.expect_nothing();
        vanish(c);
        watcher.expect(will).expect_nothing();
        // The session goes on without it.
        auto again = resume(gateway, client);
        vanish(again);
        auto third = resume(gateway, client, "");
        vanish(third);
        watcher.expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-10] a will that DISCONNECT discarded does not come back with its session") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "alice", "00");
    auto c = join_with_will(gateway, "alice", kept, "");
    leave(c);
    auto again = resume(gateway, "alice");
    vanish(again);
    watcher.expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-8] [MQTT-3.1.3-9] a will waits for its delay or the session's end, and not "
    "for a client that returns") {
    StoppedClock clock;
    Gateway gateway;
    const auto scene = [&](unsigned shard, const std::string& stem, const char* properties,
                           const char* delay, auto then) {
        const auto client = at_home(shard, stem);
        auto watcher = join(gateway, connect(at_home(1 - shard, "watcher of " + stem)));
        subscribe(watcher, client, "00");
        auto c = join_with_will(gateway, client, properties, delay);
        vanish(c);
        then(client, watcher, "30 r s'" + client + "' [ ] 'gone'");
    };
    const auto waits_a_second = [&](const std::string&, Conversation& watcher,
                                    const std::string& will) {
        gateway.pass(clock, 1000);
        watcher.expect_nothing();
        gateway.pass(clock, tick_length);
        watcher.expect(will).expect_nothing();
    };
    const auto returns = [&](const std::string& client, Conversation& watcher, const std::string&) {
        gateway.pass(clock, 1000);
        auto again = resume(gateway, client);
        gateway.pass(clock, 2000);
        watcher.expect_nothing();
    };
    const auto begins_anew = [&](const std::string& client, Conversation& watcher,
                                 const std::string& will) {
        watcher.expect_nothing();
        auto anew = join(gateway, connect(client));
        watcher.expect(will);
    };
    for (const unsigned shard : {0u, 1u}) {
        scene(shard, "delayed", "11 w3600", "18 w1", waits_a_second);
        scene(shard, "expired", "11 w1", "18 w3600", waits_a_second);
        scene(shard, "returning", "11 w3600", "18 w1", returns);
        scene(shard, "cleaning", "11 w3600", "18 w3600", begins_anew);
    }
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-14] [MQTT-3.1.2-15] a will is retained if it is to be, and not otherwise") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto kept_will = at_home(shard, "kept");
        const auto passing = at_home(shard, "passing");
        auto watcher = join(gateway, connect("watcher"));
        subscribe(watcher, kept_will, "08");
        subscribe(watcher, passing, "08");
        auto c = join_with_will(gateway, kept_will, "", "", "26");
        vanish(c);
        watcher.expect("31 r s'" + kept_will + "' [ ] 'gone'");
        auto other = join_with_will(gateway, passing, "", "", "06");
        vanish(other);
        watcher.expect("30 r s'" + passing + "' [ ] 'gone'");
        auto late = join(gateway, connect("late"));
        subscribe(late, kept_will, "00").expect("31 r s'" + kept_will + "' [ ] 'gone'");
        subscribe(late, passing, "00").expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.1.3-10] a will's user properties arrive in their order, and its others "
    "unaltered") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "alice", "00");
    auto c = join_with_will(gateway, "alice", "",
                            "18 w0 26 s'z' s'1' 03 s'text' 26 s'a' s'2' 01 01 08 s'reply' "
                            "09 s2 0007 26 s'z' s'1'");
    vanish(c);
    const auto packet = watcher.packet();
    std::vector<std::string> user;
    int others = 0;
    published(packet, v5).properties.for_each([&](const PropertyValue& value) {
        if (value.id == Property::user_property)
            user.push_back(std::string(value.key) + "=" + std::string(value.text));
        else
            ++others;
        CHECK(value.id != Property::will_delay_interval);
    });
    CHECK(user == std::vector<std::string>{"z=1", "a=2", "z=1"});
    CHECK(others == 4);
    const Properties properties = published(packet, v5).properties;
    CHECK(properties.text(Property::content_type) == "text");
    CHECK(properties.text(Property::response_topic) == "reply");
    CHECK(properties.text(Property::correlation_data) == std::string_view("\0\7", 2));
    CHECK(properties.number(Property::payload_format_indicator) == 1u);
}
