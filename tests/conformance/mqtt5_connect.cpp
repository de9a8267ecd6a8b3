// MQTT 5.0, section 3.1: CONNECT.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

TEST_CASE("5.0 [MQTT-3.1.0-1] a first packet that is no CONNECT closes the connection") {
    Gateway gateway;
    for (const char* first : {"c0 00", "e0 00", "30 r s'x' [ ] 'hi'", "82 r k1 [ ] s'x' 00",
                              "20 03 00 00 00", "f0 r 18 [ 15 s'x' ]", "40 02 k1"})
        check_rejected(gateway, first);
}

TEST_CASE(
    "5.0 [MQTT-3.1.0-2] [MQTT-3.2.0-2] a second CONNECT is a protocol error and gets no CONNACK") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    c.send(connect("p")).expect_close(Reason::protocol_error);
    auto other = join(gateway, connect("q"));
    other.send(connect("somebody else")).expect_close(Reason::protocol_error);
}

TEST_CASE(
    "5.0 [MQTT-3.14.2-1] a faulty second CONNECT gets a reason code that DISCONNECT may have") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (const char* second :
             {"10 r s'MQTT' 06 02 k10 [ ] s'p'", "10 r s'MQTT' 05 02 k10 [ ] s1 07",
              "10 r s'HTTP' 05 02 k10 [ ] s'p'", "10 00"}) {
            CAPTURE(second);
            auto c = join(gateway, connect(at_home(shard, "p")));
            c.send(second).expect_close(Reason::protocol_error);
        }
}

TEST_CASE("5.0 [MQTT-3.1.2-1] another protocol name closes the connection") {
    Gateway gateway;
    for (const char* protocol : {"s'mqtt'", "s'MQTT5'", "s'HTTP'", "s''", "s'MQIsdp'"})
        check_rejected(gateway, "10 r " + std::string(protocol) + " 05 02 k10 [ ] s'p'");
}

TEST_CASE("5.0 [MQTT-3.1.2-2] another protocol version closes the connection, after 0x84") {
    Gateway gateway;
    for (const char* version : {"06", "07", "ff"})
        CHECK(refusal(gateway, "10 r s'MQTT' " + std::string(version) + " 02 k10 [ ] s'p'") ==
              Reason::unsupported_protocol_version);
}

TEST_CASE("5.0 [MQTT-3.1.2-3] a CONNECT with its reserved flag set is not accepted") {
    Gateway gateway;
    check_rejected(gateway, connect("p", "", "03"));
    check_rejected(gateway, connect("p", "", "01"));
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-4] [MQTT-3.1.4-4] [MQTT-3.2.2-2] a clean start discards the session and "
    "begins a new one") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto first = join(gateway, connect(client, kept));
        subscribe(first, "x", "01");
        leave(first);
        sender.send("32 r s'x' k1 [ ] 'waits'").expect("40 02 k1");
        auto second = join(gateway, connect(client, kept));  // session present would fail
        sender.send("32 r s'x' k1 [ ] 'new'").expect("40 02 k1");
        second.expect_nothing();
        leave(second);
        // The new one is a session like others.
        resume(gateway, client).expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-5] [MQTT-3.1.4-4] [MQTT-3.2.2-3] without a clean start the session goes on") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto first = join(gateway, connect(client, kept));
        subscribe(first, "x", "01");
        leave(first);
        sender.send("32 r s'x' k1 [ ] 'waits'").expect("40 02 k1");
        auto second = resume(gateway, client);
        second.expect("32 r s'x' k1 [ ] 'waits'").send("40 02 k1");
        sender.send("30 r s'x' [ ] 'live'").expect_nothing();
        second.expect("30 r s'x' [ ] 'live'").expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-6] [MQTT-3.2.2-3] without a clean start and a session, a new one begins") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto first = join(gateway, connect(client, kept, "00"));
        subscribe(first, "x", "01");
        leave(first);
        auto second = resume(gateway, client, "");  // and ends with its connection
        leave(second);
        join(gateway, connect(client, kept, "00")).expect_nothing();
    }
}

TEST_CASE("5.0 [MQTT-3.1.2-9] a will's flag without the will's fields is malformed") {
    Gateway gateway;
    check_rejected(gateway, connect("p", "", "06"));
    check_rejected(gateway, connect("p", "", "06", "[ ]"));
    check_rejected(gateway, connect("p", "", "06", "[ ] s'will'"));
    check_rejected(gateway, connect("p", "", "06", "s'will' s'gone'"));
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-11] [MQTT-3.1.2-13] QoS or retain of a will without a will is malformed") {
    Gateway gateway;
    for (const char* flags : {"0a", "12", "22", "2a", "32"})
        check_rejected(gateway, connect("p", "", flags));
}

TEST_CASE("5.0 [MQTT-3.1.2-12] a will has QoS 0, 1 or 2, and arrives with it") {
    Gateway gateway;
    auto watcher = join(gateway, connect(at_home(1, "watcher")));
    subscribe(watcher, "will", "02");
    for (const auto& [flags, first_byte, identifier] :
         {std::tuple("06", "30", ""), std::tuple("0e", "32", "k1"), std::tuple("16", "34", "k2")}) {
        auto c = join(gateway, connect(at_home(0, "p"), "", flags, "[ ] s'will' s'gone'"));
        vanish(c);
        watcher.expect(std::string(first_byte) + " r s'will' " + identifier + " [ ] 'gone'");
    }
    watcher.expect_nothing();
    check_rejected(gateway, connect("p", "", "1e", "[ ] s'will' s'gone'"));
}

TEST_CASE("5.0 [MQTT-3.1.2-16] [MQTT-3.1.2-18] a name or password without its flag is malformed") {
    Gateway gateway;
    check_rejected(gateway, connect("p", "", "02", "s'bob'"));
    check_rejected(gateway, connect("p", "", "02", "s'bob' s'secret'"));
    check_rejected(gateway, connect("p", "", "82", "s'bob' s'secret'"));
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-17] [MQTT-3.1.2-19] the flag of a name or password without it is malformed") {
    Gateway gateway;
    check_rejected(gateway, connect("p", "", "82"));
    check_rejected(gateway, connect("p", "", "42"));
    check_rejected(gateway, connect("p", "", "c2", "s'bob'"));
    // A password needs no name in 5.0.
    join(gateway, connect("p", "", "42", "s'secret'")).expect_nothing();
    join(gateway, connect("p", "", "c2", "s'bob' s'secret'")).expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-22] [MQTT-3.2.2-22] silence of one and a half keepalives is a lost "
    "connection") {
    StoppedClock clock;
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "will", "00");
    Conversation c(gateway);
    c.send("10 r s'MQTT' 05 06 k1 [ ] s'p' [ ] s'will' s'gone'");
    const auto packet = c.packet();
    CHECK(!read_as<Connack>(packet).properties.number(Property::server_keep_alive));
    gateway.pass(clock, 1000);
    c.send("c0 00").expect("d0 00");
    gateway.pass(clock, 1499);
    CHECK(c.silent());
    gateway.pass(clock, 1 + tick_length);
    CHECK(disconnected(c) == Reason::keep_alive_timeout);
    watcher.expect("30 r s'will' [ ] 'gone'");
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-23] a session is kept if its expiry interval says so, however it was left") {
    Gateway gateway;
    auto sender = join(gateway, connect("sender"));
    const auto comes_back = [&](const std::string& client, const std::string& properties,
                                const std::string& goodbye) {
        auto c = join(gateway, connect(client, properties));
        subscribe(c, "x", "01");
        if (!goodbye.empty()) c.send(goodbye);
        vanish(c);
        sender.send("32 r s'x' k1 [ ] 'waits'").expect("40 02 k1");
        auto [again, session_present] = log_in(gateway, connect(client, "", "00"));
        if (session_present) CHECK(hear(again, 1).front() == "waits");
        again.expect_nothing();
        return session_present;
    };
    CHECK(comes_back("a", "11 w3600", ""));
    CHECK(comes_back("b", "11 w3600", "e0 00"));
    CHECK(comes_back("c", "11 w3600", "e0 01 04"));
    CHECK(comes_back("d", "11 w4294967295", "e0 00"));
    CHECK(comes_back("e", "11 w3600", "c1 00"));              // thrown out
    CHECK(comes_back("f", "11 w1", "e0 r 00 [ 11 w3600 ]"));  // changed its mind
    CHECK(!comes_back("g", "11 w3600", "e0 r 00 [ 11 w0 ]"));
    CHECK(!comes_back("h", "11 w0", ""));
    CHECK(!comes_back("i", "", "e0 00"));
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-24] [MQTT-3.1.2-25] what is larger than the client takes counts as sent") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto small = join(gateway, connect(at_home(shard, "small"), "27 w100 21 k1"));
        subscribe(small, "x", "02");
        for (const char* type : {"32", "34"})
            sender.send(std::string(type) + " r s'x' k9 [ ] 'x'*93").packet();
        sender.send("62 02 k9").expect("70 02 k9");
        // They hold no place in the window of one message.
        sender.send("30 r s'x' [ ] 'x'*95 | 32 r s'x' k8 [ ] 'x'*92").expect("40 02 k8");
        const auto packet = small.packet();
        CHECK(packet.size() == 100);
        CHECK(published(packet, v5).payload == std::string(92, 'x'));
        small.expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.1.2-24] a session does not send its client what its new connection can't take") {
    Gateway gateway;
    auto sender = join(gateway, connect("sender"));
    auto c = join(gateway, connect("p", kept));
    subscribe(c, "x", "01");
    sender.send("32 r s'x' k1 [ ] 'x'*200").expect("40 02 k1");
    CHECK(hear(c, 1).front().size() == 200);
    vanish(c);  // unacknowledged
    sender.send("32 r s'x' k1 [ ] 'y'*200 | 32 r s'x' k2 [ ] 'fits'").expect("40 02 k1 | 40 02 k2");
    auto again = resume(gateway, "p", kept + " 27 w100");
    CHECK(hear(again, 1).front() == "fits");
    again.expect_nothing();
}

TEST_CASE("5.0 [MQTT-3.1.2-28] only clients that ask for Response Information get it") {
    Gateway gateway;
    Gateway without_inboxes([](Config& config) { config.inbox = false; });
    const auto told = [](const Gateway& by, const std::string& properties) {
        Conversation c(by);
        c.send(connect("alice", properties));
        const auto packet = c.packet();
        return std::string(
            read_as<Connack>(packet).properties.text(Property::response_information).value_or(""));
    };
    CHECK(told(gateway, "19 01") == "inbox/alice");
    CHECK(told(gateway, "19 00").empty());
    CHECK(told(gateway, "").empty());
    CHECK(told(without_inboxes, "19 01").empty());
}

TEST_CASE("5.0 [MQTT-3.1.2-29] a client that wants no problem information gets no reason strings") {
    Gateway gateway([](Config& config) { config.max_topic_levels = 2; });
    const auto reason_strings = [&](const std::string& properties) {
        int told = 0;
        const auto look = [&](const auto& packet) {
            if (packet.properties.text(Property::reason_string)) ++told;
            CHECK(!packet.properties.text(Property::user_property));
        };
        auto c = join(gateway, connect("p", properties));
        const auto answer = [&](const char* packet) { return c.send(packet).packet(); };
        look(read_as<Puback>(answer("32 r s'presence/x' k1 [ ] '!'")));
        look(read_as<Pubrec>(answer("34 r s'presence/x' k2 [ ] '!'")));
        look(read_as<Suback>(answer("82 r k3 [ ] s'a/b/c' 00")));
        const int optional = told;
        look(read_as<Unsuback>(answer("a2 r k4 [ ] s'a/b/c'")));
        look(read_as<Pubrel>(answer("50 02 k5")));
        look(read_as<Pubcomp>(answer("62 02 k6")));
        return std::pair(optional, told);
    };
    CHECK(reason_strings("17 00") == std::pair(0, 0));
    CHECK(reason_strings("17 01").first == 3);
    CHECK(reason_strings("") == std::pair(0, 0));
}

TEST_CASE("5.0 [MQTT-3.1.3-1] the fields of a CONNECT are taken in their order") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "topic", "00");
    subscribe(watcher, "presence/user", "00");
    auto c = join(
        gateway, connect("id", "", "c6", "[ 03 s'type' ] s'topic' s'payload' s'user' s'password'"));
    const auto online = watcher.packet();
    CHECK(published(online, v5).payload.find("\"client\":\"id\"") != std::string_view::npos);
    vanish(c);
    bool will = false;
    for (int i = 0; i < 2; ++i)  // presence and will, in either order
        will = watcher.packet() == wire("30 r s'topic' [ 03 s'type' ] 'payload'") || will;
    CHECK(will);
}

TEST_CASE("5.0 [MQTT-3.1.3-2] a session is known by its client id") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto user = "s'" + at_home(shard, "carol") + "'";
        const auto come = [&](const char* client, const char* flags) {
            return log_in(gateway, connect(client, kept, flags, user));
        };
        auto phone = come("phone", "82").first;
        auto desk = come("desk", "82").first;
        subscribe(phone, "for/phone", "01");
        subscribe(desk, "for/desk", "01");
        leave(phone);
        leave(desk);
        auto sender = join(gateway, connect("sender"));
        sender.send("32 r s'for/phone' k1 [ ] | 32 r s'for/desk' k2 [ ]");
        sender.expect("40 02 k1 | 40 02 k2");
        auto [phone_again, phone_present] = come("phone", "80");
        auto [desk_again, desk_present] = come("desk", "80");
        CHECK(phone_present);
        CHECK(desk_present);
        phone_again.expect("32 r s'for/phone' k1 [ ]").expect_nothing();
        desk_again.expect("32 r s'for/desk' k1 [ ]").expect_nothing();
        CHECK(!come("Phone", "80").second);
        CHECK(!come("pho", "80").second);
    }
}

TEST_CASE("5.0 [MQTT-3.1.3-3] [MQTT-3.1.3-4] a client id is there and is UTF-8") {
    Gateway gateway;
    check_rejected(gateway, "10 r s'MQTT' 05 02 k10 [ ]");
    check_rejected(gateway, "10 r s'MQTT' 05 02 k10 [ ] s2 'p'");
    check_rejected(gateway, "10 r s'MQTT' 05 02 k10 [ ] s2 c328");
    join(gateway, "10 r s'MQTT' 05 02 k10 [ ] s2 c3a9").expect_nothing();
}

TEST_CASE("5.0 [MQTT-3.1.3-5] client ids of 1 to 23 letters and digits are taken") {
    Gateway gateway;
    const std::string all = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (std::size_t length = 1; length <= 23; ++length)
        for (std::size_t at = 0; at < all.size(); at += length)
            join(gateway, connect(all.substr(at, length)));
}

TEST_CASE(
    "5.0 [MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.2.2-16] a client without a client id is given one "
    "of its own") {
    Gateway gateway;
    const auto assigned = [&](const char* flags) {
        Conversation c(gateway);
        c.send(connect("", kept, flags));
        const auto packet = c.packet();
        const auto connack = read_as<Connack>(packet);
        CHECK(connack.reason == Reason::success);
        CHECK(!connack.session_present);
        const std::string id(
            connack.properties.text(Property::assigned_client_identifier).value_or(""));
        subscribe(c, "x", "00");
        leave(c);
        return id;
    };
    const auto first = assigned("02");
    const auto second = assigned("00");
    CHECK(!first.empty());
    CHECK(!second.empty());
    CHECK(first != second);
    for (const auto& id : {first, second}) {
        auto c = resume(gateway, id);
        c.send("30 r s'x' [ ]").expect("30 r s'x' [ ]").expect_nothing();
        leave(c);
    }
}

TEST_CASE("5.0 [MQTT-3.1.3-11] a will's topic is UTF-8") {
    Gateway gateway;
    check_rejected(gateway, connect("p", "", "06", "[ ] s1 ff s'gone'"));
    check_rejected(gateway, connect("p", "", "06", "[ ] s3 'a' 00 'b' s'gone'"));
}

TEST_CASE("5.0 [MQTT-3.1.3-12] a user name is UTF-8") {
    Gateway gateway;
    check_rejected(gateway, connect("p", "", "82", "s1 ff"));
    check_rejected(gateway, connect("p", "", "82", "s3 eda080"));
}

TEST_CASE("5.0 [MQTT-3.1.4-1] a CONNECT of another form is not accepted") {
    Gateway gateway;
    for (const char* properties : {"11 w1 11 w2", "21 k0", "27 w0", "17 02", "19 02", "22 k1 22 k1",
                                   "16 s'data'", "18 w5", "01 00", "7f 00", "11 k1", "0b 01"})
        check_rejected(gateway, connect("p", properties));
    check_rejected(gateway, connect("p", "", "02", "00"));  // more than the flags tell of
    check_rejected(gateway, "10 r s'MQTT' 05 02 k10 s'p'");
    check_rejected(gateway, "10 r s'MQTT' 05 02");
    check_rejected(gateway, connect("p", "", "06", "[ 21 k1 ] s'will' s'gone'"));
    check_rejected(gateway, connect("p", "", "06", "[ ] s'a/+' s'gone'"));
    check_rejected(gateway, connect("p", "", "06", "[ ] s'' s'gone'"));
}

TEST_CASE(
    "5.0 [MQTT-3.1.4-2] [MQTT-3.2.2-7] [MQTT-3.2.2-8] [MQTT-4.13.2-1] a login that is refused is "
    "closed after its reason") {
    Gateway gateway;
    const auto with_will = [&](const std::string& will) {
        return refusal(gateway, connect("p", "", "06", will));
    };
    CHECK(with_will("[ ] s'presence/x' s'gone'") == Reason::not_authorized);
    CHECK(with_will("[ ] s'$SYS/x' s'gone'") == Reason::not_authorized);
    CHECK(with_will("[ 01 01 ] s'will' s2 c328") == Reason::payload_format_invalid);
    CHECK(refusal(gateway, connect("p", "15 s'SCRAM'")) == Reason::bad_authentication_method);
}

TEST_CASE("5.0 [MQTT-3.1.4-3] a second connection of a client closes the first, after 0x8E") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (const char* flags : {"00", "02"})
            for (const std::string& properties : {std::string(), kept}) {
                const auto client = at_home(shard, "alice");
                auto first = join(gateway, connect(client, properties));
                auto second = log_in(gateway, connect(client, "", flags)).first;
                CHECK(disconnected(first) == Reason::session_taken_over);
                second.expect_nothing();
            }
}

TEST_CASE("5.0 [MQTT-3.1.4-5] a CONNECT that is accepted is answered with 0x00") {
    Gateway gateway;
    Conversation c(gateway);
    CHECK(c.send(connect("p")).packet().substr(2, 2) == wire("00 00"));
}

TEST_CASE("5.0 [MQTT-3.1.4-6] what follows a refused CONNECT has no effect") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "x", "01");
    const std::string publish = " | 32 r s'x' k1 [ ] 'late'";
    CHECK(refusal(gateway, connect("p", "15 s'SCRAM'") + publish) ==
          Reason::bad_authentication_method);
    CHECK(refusal(gateway, connect("p", "", "06", "[ ] s'$x' s'gone'") + publish) ==
          Reason::not_authorized);
    check_rejected(gateway, connect("p", "", "03") + publish);
    watcher.expect_nothing();
}
