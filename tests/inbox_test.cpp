#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

std::string text(std::string_view words) { return " s'" + std::string(words) + "' "; }

/// A device of a user that logs in with a clean session.
Conversation device(const Gateway& gateway, Version version, std::string_view user,
                    std::string_view client) {
    Conversation device(gateway);
    if (version == v4)
        device.send("10 r s'MQTT' 04 82 k10" + text(client) + text(user)).expect("20 r 00 00");
    else
        device.send("10 r s'MQTT' 05 82 k10 [ ]" + text(client) + text(user))
            .expect("20 r 00 00 [ " + std::string(promises) + " ]");
    return device;
}

/// The same, with a session of 3.1.1 that it keeps, or comes back to.
Conversation keeping_device(const Gateway& gateway, std::string_view user, std::string_view client,
                            bool comes_back) {
    Conversation device(gateway);
    device.send("10 r s'MQTT' 04 80 k10" + text(client) + text(user))
        .expect(comes_back ? "20 r 01 00" : "20 r 00 00");
    return device;
}

/// What is sent to all of them, after everything else: they got nothing before it.
void expect_nothing_more(Conversation& sender, std::initializer_list<Conversation*> others) {
    for (Conversation* other : others) other->send("82 r k99 s'the end' 00").expect("90 03 k99 00");
    sender.send("30 r s'the end'");
    for (Conversation* other : others) other->expect("30 r s'the end'");
}

}  // namespace

TEST_CASE("a message to a user's inbox reaches all devices, though they never subscribed") {
    Gateway gateway;
    for (const unsigned from : {0u, 1u})
        for (const unsigned to : {0u, 1u}) {
            CAPTURE(from);
            CAPTURE(to);
            const auto user = at_home(to, "bob");
            const auto topic = text("inbox/" + user);
            Conversation phone = device(gateway, v4, user, "phone");
            Conversation desk = device(gateway, v5, user, "desk");
            Conversation sender(gateway);
            sender.login(at_home(from, "sender"));
            sender.send("30 r" + topic + "'at most once'").expect_nothing();
            phone.expect("30 r" + topic + "'at most once'");
            desk.expect("30 r" + topic + "[ ] 'at most once'");
            sender.send("32 r" + topic + "k7 'at least once'").expect("40 02 k7");
            phone.expect("32 r" + topic + "k1 'at least once'").send("40 02 k1");
            desk.expect("32 r" + topic + "k1 [ ] 'at least once'").send("40 02 k1");
            sender.send("34 r" + topic + "k8 'once'").expect("50 02 k8");
            phone.expect("34 r" + topic + "k2 'once'").send("50 02 k2").expect("62 02 k2");
            desk.expect("34 r" + topic + "k2 [ ] 'once'").send("50 02 k2").expect("62 02 k2");
            phone.send("70 02 k2").expect_nothing();
            desk.send("70 02 k2").expect_nothing();
        }
}

TEST_CASE("a sender's own devices have its inbox too, this one among them") {
    Gateway gateway;
    Conversation phone = device(gateway, v4, "bob", "phone");
    Conversation desk = device(gateway, v4, "bob", "desk");
    phone.send("30 r s'inbox/bob' 'note'").expect("30 r s'inbox/bob' 'note'");
    desk.expect("30 r s'inbox/bob' 'note'");
}

TEST_CASE("a subscription to one's own inbox adds no copy, but its identifiers") {
    Gateway gateway;
    const auto user = at_home(0, "bob");
    const auto topic = text("inbox/" + user);
    Conversation desk = device(gateway, v5, user, "desk");
    Conversation phone = device(gateway, v4, user, "phone");
    Conversation sender(gateway);
    sender.login(at_home(1, "sender"));
    SUBCASE("one") {
        desk.send("82 r k1 [ 0b 05 ]" + topic + "00").expect("90 r k1 [ ] 00");
        phone.send("82 r k1" + topic + "00").expect("90 03 k1 00");
        sender.send("32 r" + topic + "k7 'm'").expect("40 02 k7");
        desk.expect("32 r" + topic + "k1 [ 0b 05 ] 'm'");  // with the higher of both QoS
        phone.expect("32 r" + topic + "k1 'm'");
    }
    SUBCASE("several") {
        desk.send("82 r k1 [ 0b 05 ]" + topic + "00 | 82 r k2 [ 0b 06 ] s'inbox/+' 00")
            .expect("90 r k1 [ ] 00 | 90 r k2 [ ] 00");
        sender.send("32 r" + topic + "k7 'm'").expect("40 02 k7");
        const auto packet = desk.packet();
        const auto got = published(packet, v5);
        CHECK(got.payload == "m");
        CHECK(got.qos == QoS::at_least_once);
        std::size_t identifiers = 0;
        got.properties.for_each([&](const PropertyValue& property) {
            identifiers += property.id == Property::subscription_identifier;
        });
        CHECK(identifiers == 2);
        phone.expect("32 r" + topic + "k1 'm'");
    }
    SUBCASE("one that it ended") {
        desk.send("82 r k1 [ 0b 05 ]" + topic + "00").expect("90 r k1 [ ] 00");
        desk.send("30 r" + topic + "[ ] 'm'").expect("30 r" + topic + "[ 0b 05 ] 'm'");
        phone.expect("30 r" + topic + "'m'");
        desk.send("a2 r k2 [ ]" + topic).expect("b0 r k2 [ ] 00");
        sender.send("32 r" + topic + "k7 'm'").expect("40 02 k7");
        desk.expect("32 r" + topic + "k1 [ ] 'm'");
        phone.expect("32 r" + topic + "k1 'm'");
    }
    expect_nothing_more(sender, {&phone});
    desk.expect_nothing();
}

TEST_CASE("a subscription with no-local excludes the client's own messages, and no others") {
    Gateway gateway;
    Conversation desk = device(gateway, v5, "bob", "desk");
    Conversation phone = device(gateway, v5, "bob", "phone");
    constexpr const char* no_local = "04";
    constexpr const char* usual = "00";
    desk.send("82 r k1 [ ] s'inbox/bob' " + std::string(no_local)).expect("90 r k1 [ ] 00");
    desk.send("30 r s'inbox/bob' [ ] 'mine'").expect_nothing();
    phone.expect("30 r s'inbox/bob' [ ] 'mine'");
    phone.send("30 r s'inbox/bob' [ ] 'yours'").expect("30 r s'inbox/bob' [ ] 'yours'");
    desk.expect("30 r s'inbox/bob' [ ] 'yours'");
    // Another subscription that wants it has it.
    desk.send("82 r k2 [ ] s'inbox/+' " + std::string(usual)).expect("90 r k2 [ ] 00");
    desk.send("30 r s'inbox/bob' [ ] 'again'").expect("30 r s'inbox/bob' [ ] 'again'");
    desk.expect_nothing();
    phone.expect("30 r s'inbox/bob' [ ] 'again'");
}

TEST_CASE("a device that is away finds it when it returns, in order with what it subscribed to") {
    Gateway gateway;
    const auto user = at_home(0, "bob");
    const auto topic = text("inbox/" + user);
    keeping_device(gateway, user, "phone", false)
        .send("82 r k1 s'room/1' 01")
        .expect("90 03 k1 01")
        .send("e0 00")
        .expect_close();
    device(gateway, v4, user, "guest").send("e0 00").expect_close();  // keeps no session
    Conversation sender(gateway);
    sender.login(at_home(1, "sender"));
    sender.send("32 r" + topic + "k1 'first' | 32 r s'room/1' k2 'second' | 30 r" + topic +
                "'does not wait' | 34 r" + topic + "k3 'third'");
    sender.expect("40 02 k1 | 40 02 k2 | 50 02 k3");
    device(gateway, v4, user, "guest").expect_nothing();
    keeping_device(gateway, user, "phone", true)
        .expect("32 r" + topic + "k1 'first' | 32 r s'room/1' k2 'second' | 34 r" + topic +
                "k3 'third'")
        .expect_nothing();
}

TEST_CASE("a session that begins anew has nothing of what came to the old one") {
    Gateway gateway;
    keeping_device(gateway, "bob", "phone", false).send("e0 00").expect_close();
    Conversation sender(gateway);
    sender.login("sender").send("32 r s'inbox/bob' k1 'lost'").expect("40 02 k1");
    Conversation phone = device(gateway, v4, "bob", "phone");
    phone.expect_nothing();
    sender.send("30 r s'inbox/bob' 'new'").expect_nothing();
    phone.expect("30 r s'inbox/bob' 'new'").expect_nothing();
}

TEST_CASE(
    "a connection that takes a session over has the inbox, whether it goes on or begins anew") {
    Gateway gateway;
    Conversation sender(gateway);
    sender.login("sender");
    Conversation first = keeping_device(gateway, "bob", "phone", false);
    Conversation second = keeping_device(gateway, "bob", "phone", true);
    sender.send("30 r s'inbox/bob' 'second'");
    second.expect("30 r s'inbox/bob' 'second'");
    Conversation third = device(gateway, v4, "bob", "phone");
    sender.send("30 r s'inbox/bob' 'third'").expect_nothing();
    third.expect("30 r s'inbox/bob' 'third'").expect_nothing();
    first.expect_close();
    second.expect_close();
}

TEST_CASE("a user's name is one level of the topic, percent-encoded in one way") {
    Gateway gateway;
    Conversation sender(gateway);
    sender.login("sender");
    const std::pair<const char*, const char*> names[] = {
        {"a/b", "a%2Fb"},        {"+", "%2B"},     {"#", "%23"},
        {"100%", "100%25"},      {"%2F", "%252F"}, {"a b", "a b"},
        {"\xC3\xA9", "\xC3\xA9"}};
    for (const auto& [user, level] : names) {
        CAPTURE(user);
        Conversation theirs = device(gateway, v4, user, "theirs");
        const auto topic = text("inbox/" + std::string(level));
        sender.send("30 r" + topic + "'m'").expect_nothing();
        theirs.expect("30 r" + topic + "'m'").expect_nothing();
    }
}

TEST_CASE("every other topic below inbox is an ordinary one") {
    Gateway gateway;
    Conversation bob = device(gateway, v4, "a/b", "bob");
    Conversation eve = device(gateway, v4, "a", "eve");
    Conversation listener(gateway);
    listener.login("listener").send("82 r k1 s'inbox/#' 00").expect("90 03 k1 00");
    Conversation sender(gateway);
    sender.login("sender");
    for (const std::string_view topic : {"inbox/a/b", "inbox/a%2fb", "inbox/%61", "inbox/a%",
                                         "inbox", "inbox/", "inbox/a/", "inbox/a%00"}) {
        CAPTURE(topic);
        sender.send("30 r" + text(topic) + "'m'");
        listener.expect("30 r" + text(topic) + "'m'");
    }
    for (const std::string_view topic : {"/inbox/a", "Inbox/a", "inbox2/a", "a"})
        sender.send("30 r" + text(topic) + "'m'");
    expect_nothing_more(sender, {&bob, &eve, &listener});
}

TEST_CASE("a user's inbox reaches no other user, except subscribers of its topic") {
    Gateway gateway;
    for (const unsigned home : {0u, 1u}) {
        CAPTURE(home);
        const auto topic = text("inbox/" + at_home(home, "bob"));
        Conversation bob = device(gateway, v4, at_home(home, "bob"), "phone");
        Conversation eve = device(gateway, v4, at_home(home, "eve"), "phone");
        Conversation far = device(gateway, v4, at_home(1 - home, "eve"), "bob");
        Conversation backend(gateway);
        backend.login(at_home(1 - home, "backend"));
        backend.send("82 r k1 s'inbox/#' 00").expect("90 03 k1 00");
        Conversation sender(gateway);
        sender.login("sender").send("32 r" + topic + "k7 'm'").expect("40 02 k7");
        backend.expect("30 r" + topic + "'m'");
        bob.expect("32 r" + topic + "k1 'm'").send("40 02 k1");
        expect_nothing_more(sender, {&bob, &eve, &far, &backend});
    }
}

TEST_CASE("with inbox off it takes a subscription") {
    Gateway gateway([](Config& config) { config.inbox = false; });
    const auto user = at_home(0, "bob");
    const auto topic = text("inbox/" + user);
    Conversation phone = device(gateway, v4, user, "phone");
    Conversation desk = device(gateway, v5, user, "desk");
    desk.send("82 r k1 [ ]" + topic + "00").expect("90 r k1 [ ] 00");
    Conversation sender(gateway);
    sender.login(at_home(1, "sender")).send("32 r" + topic + "k7 'm'").expect("40 02 k7");
    desk.expect("30 r" + topic + "[ ] 'm'").expect_nothing();
    expect_nothing_more(sender, {&phone});
}

TEST_CASE("with inbox-expiry 0 the inbox of a user without devices keeps nothing") {
    Gateway gateway([](Config& config) { config.inbox_expiry = 0; });
    Conversation sender(gateway);
    sender.login("sender", v5);
    for (const char* topic : {"inbox/nobody", "inbox/bob"}) {
        CAPTURE(topic);
        // Bob is known, and offline.
        device(gateway, v4, "bob", "phone").send("e0 00").expect_close();
        sender.send("30 r" + text(topic) + "[ ] 'm'");
        sender.send("32 r" + text(topic) + "k1 [ ] 'm'").expect("40 02 k1");
        sender.send("34 r" + text(topic) + "k2 [ ] 'm'").expect("50 02 k2");
        sender.send("62 02 k2").expect("70 02 k2");
    }
    device(gateway, v4, "nobody", "phone").expect_nothing();
    device(gateway, v4, "bob", "phone").expect_nothing();
}

TEST_CASE("messages to a user without a session wait for the first device, in order") {
    Gateway gateway;
    for (const unsigned from : {0u, 1u})
        for (const unsigned home : {0u, 1u}) {
            CAPTURE(from);
            CAPTURE(home);
            const auto user = at_home(home, "bob");
            const auto topic = text("inbox/" + user);
            Conversation sender(gateway);
            sender.login(at_home(from, "sender"));
            sender.send("32 r" + topic + "k1 'a' | 34 r" + topic + "k2 'b' | 30 r" + topic + "'c'");
            sender.expect("40 02 k1 | 50 02 k2").expect_nothing();
            Conversation phone = device(gateway, v4, user, "phone");
            phone.expect("32 r" + topic + "k1 'a' | 34 r" + topic + "k2 'b'");
            Conversation desk = device(gateway, v5, user, "desk");
            desk.expect_nothing();
            phone.send("40 02 k1 | 50 02 k2").expect("62 02 k2").send("70 02 k2").expect_nothing();
            phone.send("e0 00").expect_close();
            desk.send("e0 00").expect_close();
            device(gateway, v4, user, "phone").expect_nothing();
            sender.send("e0 00").expect_close();
        }
}

TEST_CASE("messages that the first device has not acknowledged go to the next one") {
    Gateway gateway;
    const auto user = at_home(0, "bob");
    const auto topic = text("inbox/" + user);
    Conversation sender(gateway);
    sender.login(at_home(1, "sender"));
    for (const char* name : {"a", "b", "c"})
        sender.send("32 r" + topic + "k1 '" + name + "'").expect("40 02 k1");
    Conversation phone = device(gateway, v4, user, "phone");
    phone.expect("32 r" + topic + "k1 'a' | 32 r" + topic + "k2 'b' | 32 r" + topic + "k3 'c'");
    Conversation desk = device(gateway, v4, user, "desk");
    desk.expect_nothing();
    phone.send("40 02 k2").expect_nothing();
    phone.close();
    desk.expect("32 r" + topic + "k1 'a' | 32 r" + topic + "k2 'c'");  // it was there
    desk.close();
    sender.expect_nothing();
    Conversation back = device(gateway, v4, user, "phone");
    back.expect("32 r" + topic + "k1 'a' | 32 r" + topic + "k2 'c'");
    back.send("40 02 k1 | 40 02 k2").expect_nothing();
    back.close();
    device(gateway, v4, user, "desk").expect_nothing();
}

TEST_CASE("a device that keeps its session keeps what waited for it") {
    Gateway gateway;
    const auto user = at_home(0, "bob");
    const auto topic = text("inbox/" + user);
    Conversation sender(gateway);
    sender.login(at_home(1, "sender"));
    sender.send("32 r" + topic + "k1 'a'").expect("40 02 k1");
    Conversation phone = keeping_device(gateway, user, "phone", false);
    phone.expect("32 r" + topic + "k1 'a'");
    phone.close();
    device(gateway, v4, user, "desk").expect_nothing();
    Conversation back = keeping_device(gateway, user, "phone", true);
    back.expect("3a r" + topic + "k1 'a'");
    back.close();
    device(gateway, v4, user, "phone").expect("32 r" + topic + "k1 'a'");  // its session ended
}

TEST_CASE("a user with an inbox that never connected is unknown to presence") {
    Gateway gateway;
    Conversation sender(gateway);
    sender.login("sender").send("32 r s'inbox/nobody' k1 'a'").expect("40 02 k1");
    Conversation watcher(gateway);
    watcher.login("watcher").send("82 r k1 s'presence/nobody' 00").expect("90 03 k1 00");
    watcher.expect_nothing();
    device(gateway, v4, "nobody", "phone").expect("32 r s'inbox/nobody' k1 'a'");
    CHECK(published(watcher.packet()).payload.find("\"state\":\"online\"") != std::string::npos);
}

TEST_CASE("an inbox waits as long as inbox-expiry says, after its last message") {
    Gateway gateway([](Config& config) { config.inbox_expiry = 3000; });
    StoppedClock clock;
    Conversation sender(gateway);
    sender.login("sender").send("32 r s'inbox/late' k1 'a'").expect("40 02 k1");
    sender.send("32 r s'inbox/early' k1 'a'").expect("40 02 k1");
    gateway.pass(clock, 2000);
    sender.send("32 r s'inbox/early' k1 'b'").expect("40 02 k1");
    gateway.pass(clock, 2000);
    device(gateway, v4, "late", "phone").expect_nothing();
    device(gateway, v4, "early", "phone")
        .expect("32 r s'inbox/early' k1 'a' | 32 r s'inbox/early' k2 'b'");
}

TEST_CASE("inboxes are limited, for one sender and for all") {
    for (const bool for_all : {false, true}) {
        CAPTURE(for_all);
        Gateway gateway([&](Config& config) {
            config.shards = 1;
            (for_all ? config.max_inboxes : config.max_inboxes_per_user) = 1;
        });
        Conversation sender(gateway);
        Conversation other(gateway);
        sender.login("sender");
        other.login("other");
        for (const char* user : {"b", "c"})
            sender.send("32 r s'inbox/" + std::string(user) + "' k1 '!'").expect("40 02 k1");
        other.send("32 r s'inbox/d' k1 '!'").expect("40 02 k1");
        device(gateway, v4, "b", "phone").expect("32 r s'inbox/b' k1 '!'");
        device(gateway, v4, "c", "phone").expect_nothing();
        Conversation last = device(gateway, v4, "d", "phone");
        if (for_all)
            last.expect_nothing();
        else
            last.expect("32 r s'inbox/d' k1 '!'");
        CHECK(gateway.has_logged(for_all ? "max-inboxes is reached"
                                         : "max-inboxes-per-user is reached"));
    }
}

TEST_CASE("after a restart, the gateway knows the sender of each inbox") {
    const TemporaryFolder folder;
    const auto limited = [&](Config& config) {
        config.shards = 1;
        config.data = folder.path("data");
        config.max_inboxes_per_user = 1;
    };
    const auto send = [](const Gateway& gateway, const std::string& sender, const char* user) {
        Conversation conversation(gateway);
        conversation.login(sender);
        conversation.send("32 r s'inbox/" + std::string(user) + "' k1 '!'").expect("40 02 k1");
    };
    {
        const Gateway gateway(limited);
        send(gateway, "sender", "a");
    }
    const Gateway gateway(limited);
    send(gateway, "sender", "c");
    send(gateway, "other", "d");
    device(gateway, v4, "a", "phone").expect("32 r s'inbox/a' k1 '!'");
    device(gateway, v4, "c", "phone").expect_nothing();
    device(gateway, v4, "d", "phone").expect("32 r s'inbox/d' k1 '!'");
}

TEST_CASE("a message that is retained in an inbox is told again to subscriptions only") {
    Gateway gateway;
    for (const unsigned home : {0u, 1u}) {
        CAPTURE(home);
        const auto user = at_home(home, "bob");
        const auto topic = text("inbox/" + user);
        Conversation phone = device(gateway, v4, user, "phone");
        Conversation sender(gateway);
        sender.login("sender").send("33 r" + topic + "k7 'm'").expect("40 02 k7");
        phone.expect("32 r" + topic + "k1 'm'").send("40 02 k1").expect_nothing();
        Conversation desk = device(gateway, v4, user, "desk");
        desk.expect_nothing();
        desk.send("82 r k1" + topic + "00").expect("90 03 k1 00 | 31 r" + topic + "'m'");
        sender.send("31 r" + topic).expect_nothing();
        phone.expect("30 r" + topic).expect_nothing();
        desk.expect("30 r" + topic).expect_nothing();
    }
}

TEST_CASE("a will may be for an inbox") {
    Gateway gateway;
    const auto user = at_home(0, "bob");
    const auto topic = text("inbox/" + user);
    const std::string connect = "10 r s'MQTT' 04 8c k10";  // a will of QoS 1, a session that stays
    Conversation phone = device(gateway, v4, user, "phone");
    SUBCASE("somebody else's") {
        Conversation mortal(gateway);
        mortal.send(connect + text("mortal") + topic + "s'bye'" + text(at_home(1, "mortal")));
        mortal.expect("20 r 00 00").close();
        phone.expect("32 r" + topic + "k1 'bye'").send("40 02 k1").expect_nothing();
    }
    SUBCASE("one's own, which a session that stays will find") {
        Conversation mortal(gateway);
        mortal.send(connect + text("mortal") + topic + "s'bye'" + text(user));
        mortal.expect("20 r 00 00").close();
        phone.expect("32 r" + topic + "k1 'bye'").send("40 02 k1").expect_nothing();
        keeping_device(gateway, user, "mortal", true).expect("32 r" + topic + "k1 'bye'");
    }
    SUBCASE("one's own, of a session that a clean one replaces") {
        Conversation mortal(gateway);
        mortal.send(connect + text("mortal") + topic + "s'bye'" + text(user));
        mortal.expect("20 r 00 00");
        Conversation next = device(gateway, v4, user, "mortal");
        mortal.expect_close();
        phone.expect("32 r" + topic + "k1 'bye'").send("40 02 k1").expect_nothing();
        next.send("32 r" + topic + "k7 'first'").expect("32 r" + topic + "k1 'first' | 40 02 k7");
    }
    SUBCASE("above max-qos") {
        Gateway modest([](Config& config) { config.max_qos = QoS::at_least_once; });
        Conversation there = device(modest, v4, user, "phone");
        Conversation mortal(modest);
        mortal.send("10 r s'MQTT' 04 16 k10" + text("mortal") + topic + "s'bye'");
        mortal.expect("20 r 00 00").close();
        there.expect("32 r" + topic + "k1 'bye'").send("40 02 k1").expect_nothing();
    }
}

TEST_CASE("a delivery to an inbox obeys the connection's limits and aliases") {
    Gateway gateway;
    Conversation narrow(gateway);  // Receive Maximum 1, Maximum Packet Size 60, one alias
    narrow.send("10 r s'MQTT' 05 82 k10 [ 21 k1 27 w60 22 k1 ] s'narrow' s'bob'")
        .expect("20 r 00 00 [ " + std::string(promises) + " ]");
    Conversation sender(gateway);
    sender.login("sender");
    sender.send(
        "30 r s'inbox/bob' 'x'*60 | 32 r s'inbox/bob' k1 'one' | 32 r s'inbox/bob' k2 'two'");
    sender.expect("40 02 k1 | 40 02 k2");
    narrow.expect("32 r s'inbox/bob' k1 [ 23 k1 ] 'one'").expect_nothing();
    narrow.send("40 02 k1").expect("32 r s'' k2 [ 23 k1 ] 'two'");
    CHECK(gateway.has_logged("client 'narrow' of user 'bob': message to 'inbox/bob' dropped"));
}
