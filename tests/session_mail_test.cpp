// What takes more than one shard, or time that passes, told to brokers without a gateway: mail is
// read when the test says so, and the clock stands.
#include <doctest/doctest.h>

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/decode.h"
#include "tests/support/company_of_brokers.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// A client that talks to a broker in packet notation (see wire.h).
class Caller {
public:
    Caller(Company& company, std::string_view name)
        : company_(company), link_(Broker::home(name, company.shards())) {
        company.adopt(link_);
    }
    ~Caller() { lose(); }

    Caller& send(std::string_view notation) {
        const std::string bytes = wire(notation);
        Bytes rest = as_bytes(bytes);
        while (!rest.empty()) {
            const Frame frame = next_frame(rest, bytes.size());
            REQUIRE(frame.status == Frame::Status::complete);
            const Decoded decoded = decode(rest.first(frame.size), version_, Sender::client);
            REQUIRE(std::holds_alternative<Packet>(decoded));
            hand_in(std::get<Packet>(decoded));
            rest = rest.subspan(frame.size);
        }
        company_.end_turn();
        return *this;
    }

    Caller& expect(std::string_view notation) {
        CHECK(hex(link_.bytes) == hex(wire(notation)));
        link_.bytes.clear();
        return *this;
    }
    Caller& expect_nothing() { return expect(""); }

    /// The CONNACK, whatever it tells.
    Caller& come_in() {
        REQUIRE(link_.bytes.starts_with('\x20'));
        link_.bytes.clear();
        return *this;
    }

    void lose() {
        if (link_.ending) return;
        link_.end({Cause::connection_lost, Reason::success, "lost"});
        company_.end_turn();
    }

private:
    void hand_in(const Packet& packet) {
        Broker& broker = company_.broker(link_.shard);
        if (const auto* connect = std::get_if<Connect>(&packet)) {
            version_ = connect->version;
            broker.login(link_, *connect, {}, company_.now);
        } else {
            broker.handle(*link_.session, packet, company_.now);
        }
    }

    Company& company_;
    KeptLink link_;
    Version version_ = Version::v3_1_1;
};

/// A name that begins so and is at home on that shard.
std::string at_home(const Company& company, unsigned shard, std::string name) {
    while (Broker::home(name, company.shards()) != shard) name += '+';
    return name;
}

void deliver_all(Company& company) {
    while (company.has_mail()) {
        company.deliver(company.pairs_with_mail().front());
        company.end_turn();
    }
}

/// CONNECT of 5.0 for a session that lasts a minute.
std::string keeps_session(std::string_view user, std::string_view client) {
    return "10 r s'MQTT' 05 80 k10 [ 11 w60 ] s'" + std::string(client) + "' s'" +
           std::string(user) + "'";
}

}  // namespace

TEST_CASE("a will that has no time to live is for those who are there, and not retained") {
    Company company({}, 1);
    Caller there(company, "there");
    there.send("10 r s'MQTT' 04 02 k10 s'there'").come_in();
    there.send("82 r k1 s'w' 00").expect("90 03 k1 00");
    Caller mortal(company, "mortal");
    mortal.send("10 r s'MQTT' 05 26 k10 [ ] s'mortal' [ 02 w0 ] s'w' s'bye'").come_in();
    mortal.lose();
    there.expect("30 r s'w' 'bye'");
    company.now += 1;
    there.send("82 r k1 s'w' 00").expect("90 03 k1 00");
}

TEST_CASE("a message that is too large with a topic alias only is sent without") {
    Company company({}, 1);
    Caller small(company, "small");
    small.send("10 r s'MQTT' 05 02 k10 [ 22 k9 27 w30 ] s'small'").come_in();
    small.send("82 r k1 [ ] s'#' 00").expect("90 r k1 [ ] 00");
    Caller sender(company, "sender");
    sender.send("10 r s'MQTT' 04 02 k10 s'sender'").come_in();
    sender.send("30 r s'a' 'x'*24").send("30 r s'a' 'x'*25");
    small.expect("30 1c s'a' [ ] 'x'*24");
    sender.send("30 r s'a' 'short'").send("30 r s'a' 'x'*24").send("30 r s'a' 'short'");
    small.expect(
        "30 r s'a' [ 23 k1 ] 'short' | 30 1c s'a' [ ] 'x'*24 | 30 r s'' [ 23 k1 ] 'short'");
}

TEST_CASE("what a client has not acknowledged goes to its group, though it has unsubscribed") {
    Company company({}, 1);
    Caller one(company, "one");
    Caller other(company, "other");
    one.send("10 r s'MQTT' 04 02 k10 s'one'").come_in();
    other.send("10 r s'MQTT' 04 02 k10 s'other'").come_in();
    one.send("82 r k1 s'$share/g/t' 01").expect("90 03 k1 01");
    other.send("32 r s't' k7 'm'").expect("40 02 k7");
    one.expect("32 r s't' k1 'm'");
    other.send("82 r k1 s'$share/g/t' 01").expect("90 03 k1 01");
    one.send("a2 r k2 s'$share/g/t'").expect("b0 02 k2");
    other.expect_nothing();
    one.lose();
    other.expect("32 r s't' k1 'm'");
}

TEST_CASE("a client that comes back completes what it was sent by a group that it has left") {
    Company company({}, 1);
    for (const bool in_another : {false, true}) {
        CAPTURE(in_another);
        const std::string connect = "10 r s'MQTT' 05 00 k10 [ 11 w60 ] s'one'";
        Caller one(company, "one");
        one.send(connect).come_in();
        if (in_another) one.send("82 r k1 [ ] s'$share/h/other' 01").expect("90 r k1 [ ] 01");
        one.send("82 r k1 [ ] s'$share/g/t' 01").expect("90 r k1 [ ] 01");
        one.send("32 r s't' k7 [ ] 'm'").expect("32 r s't' k1 [ ] 'm' | 40 02 k7");
        one.send("a2 r k2 [ ] s'$share/g/t'").expect("b0 r k2 [ ] 00");
        one.lose();
        Caller again(company, "one");
        again.send(connect).expect(
            "20 r 01 00 [ 21 k256 27 w262144 22 k16 ] | 3a r s't' k1 [ ] 'm'");
        again.send("40 02 k1 | e0 r 00 [ 11 w0 ]").expect_nothing();
    }
}

TEST_CASE("what a group hands to a client that has left it is for the others") {
    Company company({}, 2);
    const unsigned home = Broker::home("$share/g/t", 2);
    const auto name = at_home(company, 1 - home, "one");
    const auto other_name = at_home(company, home, "other");
    const std::string connect = "10 r s'MQTT' 05 02 k10 [ ] s'" + name + "'";
    for (const bool begins_anew : {false, true}) {
        CAPTURE(begins_anew);
        Caller one(company, name);
        Caller again(company, name);
        Caller other(company, other_name);
        one.send(connect).come_in();
        other.send("10 r s'MQTT' 04 02 k10 s'" + other_name + "'").come_in();
        one.send("82 r k1 [ ] s'$share/g/t' 01 s'$share/h/another' 01").expect("90 r k1 [ ] 01 01");
        deliver_all(company);
        other.send("82 r k1 s'$share/g/t' 01").expect("90 03 k1 01");
        other.send("32 r s't' k7 'm'").expect("40 02 k7");  // it is the first member's turn
        REQUIRE(company.has_mail());
        if (begins_anew) {
            again.send(connect).come_in();
            again.send("82 r k1 [ ] s'$share/h/another' 01").expect("90 r k1 [ ] 01");
        } else {
            one.send("a2 r k2 [ ] s'$share/g/t'").expect("b0 r k2 [ ] 00");
        }
        deliver_all(company);
        one.expect_nothing();
        again.expect_nothing();
        other.expect("32 r s't' k1 'm'");
    }
}

TEST_CASE("what waits in an inbox tells how long it still lives, and is dropped in the end") {
    Company company({}, 2);
    Caller sender(company, at_home(company, 1, "sender"));
    sender.send("10 r s'MQTT' 05 02 k10 [ ] s'sender'").come_in();
    const auto bob = at_home(company, 0, "bob");
    const auto connect = keeps_session(bob, "phone");
    const auto topic = " s'inbox/" + topic_level(bob) + "' ";
    {
        Caller phone(company, bob);
        phone.send(connect).come_in();
    }
    sender.send("32 r" + topic + "k1 [ 02 w10 ] 'long' | 32 r" + topic + "k2 [ 02 w5 ] 'short'");
    sender.expect("40 02 k1 | 40 02 k2");
    deliver_all(company);
    company.now += 6000;
    Caller phone(company, bob);
    phone.send(connect).expect("20 r 01 00 [ 21 k256 27 w262144 22 k16 ] | 32 r" + topic +
                               "k1 [ 02 w4 ] 'long'");
    CHECK(company.sum(&Counters::dropped_expired) == 1);
}

TEST_CASE("a message to an inbox wakes its owner's shard, and no other") {
    for (const bool inbox : {true, false}) {
        CAPTURE(inbox);
        BrokerSettings settings;
        settings.inbox = inbox;
        Company company(settings, 3);
        Caller sender(company, at_home(company, 0, "sender"));
        sender.send("10 r s'MQTT' 04 02 k10 s'sender'").come_in();
        company.take_forwarded();
        const auto bob = at_home(company, 1, "bob");
        const auto inbox_of_bob = "inbox/" + topic_level(bob);
        sender.send("30 r s'" + inbox_of_bob + "' 'm' | 30 r s'" + inbox_of_bob + "/x' 'm'");
        const auto forwarded = company.take_forwarded();
        REQUIRE(forwarded.size() == 2);
        using Shards = std::vector<unsigned>;
        CHECK(forwarded[0].spared == (inbox ? Shards{2} : Shards{1, 2}));
        CHECK(forwarded[1].spared == Shards{1, 2});
    }
}

TEST_CASE("nobody asks the rules whether a user may have what comes to its own inbox") {
    Company company({}, 1);
    AccessRules rules;
    CHECK(rules.add("allow write inbox/bob").empty());
    company.broker(0).use(std::make_shared<const AccessRules>(rules));
    Caller bob(company, "bob");
    bob.send("10 r s'MQTT' 05 02 k10 [ ] s'bob'").come_in();
    bob.send("82 r k1 [ ] s'inbox/bob' 00").expect("90 r k1 [ ] 87");
    Caller eve(company, "eve");
    eve.send("10 r s'MQTT' 05 02 k10 [ ] s'eve'").come_in();
    eve.send("32 r s'inbox/bob' k1 [ ] 'hello'").expect("40 02 k1");
    bob.expect("32 r s'inbox/bob' k1 [ ] 'hello'");
    eve.send("32 r s'inbox/eve' k2 [ ] 'hello'").expect("40 03 k2 87");
}

TEST_CASE("every device that a message to an inbox looks at is work") {
    Company company({}, 1);
    Caller sender(company, "sender");
    sender.send("10 r s'MQTT' 04 02 k10 s'sender'").come_in();
    std::list<Caller> devices;
    for (int i = 0; i < 100; ++i) {
        auto& device = devices.emplace_back(company, "bob");
        device.send(keeps_session("bob", "device" + std::to_string(i))).come_in();
        if (i % 2 == 0) device.lose();
    }
    const auto before = company.broker(0).work();
    sender.send("30 r s'inbox/bob' 'm'");
    CHECK(company.broker(0).work() >= before + 100);
}
