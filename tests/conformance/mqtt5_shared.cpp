// MQTT 5.0, sections 4.7 and 4.8: topics, filters, shared subscriptions.

#include <chrono>
#include <map>

#include "protocol/topic.h"
#include "tests/conformance/mqtt5.h"
#include "tests/support/patience.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;
using namespace std::chrono_literals;

namespace {

/// What SUBACK says of a filter.
Reason judged(Conversation& c, const std::string& filter) {
    const auto packet = c.send("82 r k1 [ ] " + filter + " 00").packet();
    return read_as<Suback>(packet).reasons.at(0);
}

/// SUBSCRIBE and UNSUBSCRIBE with this filter end the connection.
void check_malformed(const Gateway& gateway, const std::string& filter) {
    check_ends(gateway, "82 r k1 [ ] s'" + filter + "' 00", Reason::malformed_packet);
    check_ends(gateway, "a2 r k1 [ ] s'" + filter + "'", Reason::malformed_packet);
}

/// The first that comes to this member, the only one of its group, is what is published now.
void check_had_nothing(Conversation& sender, Conversation& member, const std::string& topic) {
    sender.send("30 r " + topic + " [ ] 'now'").expect_nothing();
    member.expect("30 r " + topic + " [ ] 'now'").expect_nothing();
}

}  // namespace

TEST_CASE(
    "5.0 [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1] a filter with a misplaced wildcard, or none "
    "at all, is malformed") {
    Gateway gateway;
    for (const char* filter :
         {"a#", "#/a", "a/#/b", "a/b#", "##", "a+", "+a", "a/+b", "a/b+/c", ""})
        check_malformed(gateway, filter);
    auto c = join(gateway, connect("p"));
    for (const char* filter : {"a/#", "+", "+/a", "a/+", "a/+/b", "+/+/+/#", "/", "a//b"})
        CHECK(judged(c, "s'" + std::string(filter) + "'") == Reason::success);
    auto other = join(gateway, connect("q"));
    other.send("30 r s'' [ ]").expect_close(Reason::protocol_error);
}

TEST_CASE(
    "5.0 [MQTT-4.7.2-1] a filter that begins with a wildcard matches no topic that begins with $") {
    for (const char* filter : {"#", "+/x", "+/#", "+/+"}) {
        CHECK(!topic_matches(filter, "$SYS/x"));
        CHECK(topic_matches(filter, "SYS/x"));
    }
    CHECK(topic_matches("$SYS/#", "$SYS/x"));
    CHECK(topic_matches("$SYS/+", "$SYS/x"));
    CHECK(topic_matches("a/+", "a/$x"));
}

TEST_CASE("5.0 [MQTT-4.7.3-3] a topic of 65,535 bytes is a topic") {
    Gateway gateway;
    auto sender = join(gateway, connect(at_home(0, "sender")));
    auto receiver = join(gateway, connect(at_home(1, "receiver")));
    const auto longest = "s'a/" + std::string(65'533, 'b') + "'";
    receiver.send("82 r k1 [ ] " + longest + " 01 s'a/+' 00").expect("90 r k1 [ ] 01 00");
    sender.send("32 r " + longest + " k1 [ ] 'hi'").expect("40 02 k1");
    receiver.expect("32 r " + longest + " k1 [ ] 'hi'").expect_nothing();
}

TEST_CASE("5.0 [MQTT-4.7.3-4] topics are compared byte by byte, without any normalization") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    const std::string composed = "s2 c3a9";
    const std::string decomposed = "s3 'e' cc81";
    c.send("82 r k1 [ ] " + composed + " 00 s'a/b' 00").expect("90 r k1 [ ] 00 00");
    c.send("30 r " + decomposed + " [ ] | 30 r " + composed + " [ ]")
        .expect("30 r " + composed + " [ ]");
    for (const char* other : {"A/b", "a/B", "/a/b", "a/b/", "a//b", "a/b ", " a/b", "a/../a/b"})
        c.send("30 r s'" + std::string(other) + "' [ ]");
    c.expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-4.8.2-1] [MQTT-4.8.2-2] a shared subscription without a proper name and filter is "
    "malformed") {
    Gateway gateway;
    for (const char* filter :
         {"$share/", "$share/g", "$share/g/", "$share//x", "$share/+/x", "$share/#/x",
          "$share/g+/x", "$share/a#b/x", "$share/g/a#", "$share/g/#/a"})
        check_malformed(gateway, filter);
    auto c = join(gateway, connect("p"));
    for (const char* filter :
         {"$share/g/x", "$share/g/#", "$share/g/+/x", "$share/g//", "$share/g/$x"})
        CHECK(judged(c, "s'" + std::string(filter) + "'") == Reason::success);
}

TEST_CASE(
    "5.0 [MQTT-4.8.2-3] each message goes to one member of a group, with the QoS that this one was "
    "granted") {
    Gateway gateway;
    std::vector<Conversation> members;
    for (const unsigned shard : {0u, 1u})
        for (const char* qos : {"00", "01", "02"}) {
            members.push_back(join(gateway, connect(at_home(shard, "member" + std::string(qos)))));
            subscribe(members.back(), "$share/g/x", qos);
        }
    auto other_group = join(gateway, connect("other"));
    subscribe(other_group, "$share/h/x", "00");
    auto alone = join(gateway, connect("alone"));
    subscribe(alone, "x", "00");
    auto sender = join(gateway, connect("sender"));
    constexpr int messages = 60;
    for (int i = 0; i < messages; ++i) publish_exactly_once(sender, "x", std::to_string(i));
    std::map<std::string, int> seen;
    std::vector<int> got(members.size());
    int all = 0;
    const auto collect = [&] {
        for (std::size_t at = 0; at < members.size(); ++at) {
            members[at].send("c0 00");
            while (true) {
                const auto packet = members[at].packet();
                if (packet == wire("d0 00")) break;
                const Publish message = published(packet, v5);
                CHECK(static_cast<std::size_t>(message.qos) == at % 3);
                ++seen[std::string(message.payload)];
                ++got[at];
                ++all;
            }
        }
    };
    for (const Stopwatch watch; all < messages && watch.elapsed() < test_patience;) collect();
    collect();
    for (const int count : got) CHECK(count > 0);  // each had its turns
    CHECK(seen.size() == messages);
    for (const auto& [payload, times] : seen) CHECK(times == 1);
    CHECK(hear(other_group, messages).back() == std::to_string(messages - 1));
    CHECK(hear(alone, messages).back() == std::to_string(messages - 1));
    other_group.expect_nothing();
    alone.expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-3.3.4-3] [MQTT-3.10.4-1] a shared subscription is given no retained messages, "
    "carries its identifier and ends by its whole filter") {
    Gateway gateway;
    auto sender = join(gateway, connect("sender"));
    sender.send("33 r s'x' k1 [ ] 'kept'").expect("40 02 k1");
    auto member = join(gateway, connect("member"));
    subscribe(member, "$share/g/x", "00", "0b 07").expect_nothing();
    sender.send("30 r s'x' [ ] '!'").expect_nothing();
    member.expect("30 r s'x' [ 0b 07 ] '!'").expect_nothing();
    member.send("a2 r k1 [ ] s'x' s'$share/h/x' s'$share/g/x'").expect("b0 r k1 [ ] 11 11 00");
    sender.send("30 r s'x' [ ] '!'").expect_nothing();
    member.expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-4.8.2-4] [MQTT-4.8.2-5] a message at QoS 2 that a member was sent stays with that "
    "member's session, and ends with it") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "first");
        const auto filter = "$share/g/x/" + std::to_string(shard);
        const auto topic = "s'x/" + std::to_string(shard) + "'";
        auto sender = join(gateway, connect("sender"));
        auto first = join(gateway, connect(client, kept));
        subscribe(first, filter, "02");
        for (const char* k : {"k1", "k2"}) {
            const auto id = std::string(k);
            sender.send("34 r " + topic + " " + id + " [ ] '" + id + "'").expect("50 02 " + id);
            sender.send("62 02 " + id).expect("70 02 " + id);
        }
        first.expect("34 r " + topic + " k1 [ ] 'k1' | 34 r " + topic + " k2 [ ] 'k2'");
        first.send("50 02 k1").expect("62 02 k1");
        auto second = join(gateway, connect(at_home(1 - shard, "second")));
        subscribe(second, filter, "02");
        vanish(first);
        second.expect_nothing();

        auto back = resume(gateway, client);
        back.expect("62 02 k1 | 3c r " + topic + " k2 [ ] 'k2'").expect_nothing();
        vanish(back);
        auto anew = join(gateway, connect(client));  // a clean start ends the session
        anew.expect_nothing();
        check_had_nothing(sender, second, topic);
    }
}

TEST_CASE("5.0 [MQTT-4.8.2-6] a message that a member refuses goes to nobody else") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto filter = "$share/g/x/" + std::to_string(shard);
        const auto topic = "s'x/" + std::to_string(shard) + "'";
        auto sender = join(gateway, connect("sender"));
        auto first = join(gateway, connect(at_home(shard, "first"), kept));
        subscribe(first, filter, "02");
        sender.send("32 r " + topic + " k1 [ ] | 34 r " + topic + " k2 [ ]");
        sender.expect("40 02 k1 | 50 02 k2").send("62 02 k2").expect("70 02 k2");
        first.expect("32 r " + topic + " k1 [ ] | 34 r " + topic + " k2 [ ]");
        auto second = join(gateway, connect(at_home(1 - shard, "second")));
        subscribe(second, filter, "02");
        first.send("40 03 k1 83 | 50 03 k2 83").expect_nothing();
        second.expect_nothing();
        vanish(first);
        auto ended = join(gateway, connect(at_home(shard, "first")));
        ended.expect_nothing();
        check_had_nothing(sender, second, topic);
    }
}

TEST_CASE(
    "5.0 [MQTT-4.8.2-3] what a member left unacknowledged goes to another, with that one's QoS") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto filter = "$share/g/x/" + std::to_string(shard);
        const auto topic = "s'x/" + std::to_string(shard) + "'";
        auto sender = join(gateway, connect("sender"));
        auto first = join(gateway, connect(at_home(shard, "first")));
        subscribe(first, filter, "01");
        sender.send("32 r " + topic + " k1 [ ] 'one' | 32 r " + topic + " k2 [ ] 'two'");
        sender.expect("40 02 k1 | 40 02 k2");
        first.expect("32 r " + topic + " k1 [ ] 'one' | 32 r " + topic + " k2 [ ] 'two'");
        auto second = join(gateway, connect(at_home(1 - shard, "second")));
        subscribe(second, filter, "00");
        first.send("40 02 k1").expect_nothing();
        vanish(first);
        second.expect("30 r " + topic + " [ ] 'two'").expect_nothing();
    }
}
