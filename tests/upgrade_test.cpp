// Clients pass from one gateway to another with their sockets, as in an upgrade, and notice
// nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/websocket.h"
#include "server/auth/passwords/passwords.h"
#include "server/settings/config.h"
#include "server/upgrade/record_codec.h"
#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// A gateway that another one takes the place of, with the same data or without.
class Upgraded {
public:
    explicit Upgraded(bool has_store = false, std::string password_file = {})
        : has_store_(has_store), password_file_(std::move(password_file)) {
        start(2);
    }

    const Gateway& operator*() const { return *gateway_; }
    const Gateway* operator->() const { return gateway_.get(); }

    /// To another number of shards. Returns how many clients have come along. They had been silent
    /// for that many milliseconds more.
    std::size_t upgrade(unsigned shards = 3, std::int64_t silence = 0) {
        REQUIRE(gateway_->freeze());
        auto clients = gateway_->passing(&left);
        for (auto& client : clients) {
            auto record = *decode(client.state);
            record.connection.silence += silence;
            client.state = encode(record);
        }
        gateway_->stop();
        gateway_.reset();
        start(shards);
        return gateway_->adopt(std::move(clients));
    }

    std::size_t left = 0;  ///< clients that stayed behind

private:
    void start(unsigned shards) {
        gateway_ = std::make_unique<Gateway>([&](Config& config) {
            config.shards = shards;
            config.stop_wait = 0;
            if (!password_file_.empty()) config.authenticator.password_file = password_file_;
            config.data = has_store_ ? folder_.path("data") : "";
            config.listen.push_back({ListenUrl::Scheme::ws, "127.0.0.1", 0});
            config.listen.back().path = "/mqtt";
        });
    }

    const TemporaryFolder folder_;
    const bool has_store_;
    const std::string password_file_;
    std::unique_ptr<Gateway> gateway_;
};

std::string packet_of(std::string_view notation) { return wire(notation); }

}  // namespace

TEST_CASE("clients of sessions that are not kept go on after an upgrade") {
    Upgraded gateway;
    Conversation ann(*gateway);
    Conversation bob(*gateway);
    ann.login("ann");
    bob.login("bob");
    bob.send("82 r k1 s'news' 02").expect("90 r k1 02");
    ann.send("32 r s'news' k1 'one'").expect("40 r k1");
    bob.expect("32 r s'news' k1 'one'");
    ann.send("34 r s'news' k2 'two'").expect("50 r k2");
    bob.expect("34 r s'news' k2 'two'");
    CHECK(gateway.upgrade() == 2);
    CHECK(gateway.left == 0);
    // What was in flight is, with its identifier, and nothing comes again.
    bob.send("40 r k1").send("50 r k2").expect("62 r k2").send("70 r k2");
    ann.send("62 r k2").expect("70 r k2");
    ann.send("32 r s'news' k3 'three'").expect("40 r k3");
    bob.expect("32 r s'news' k3 'three'").send("40 r k3");
    bob.send("C0 00").expect("D0 00");
    ann.send("C0 00").expect("D0 00");
}

TEST_CASE("clients of sessions that are kept go on after an upgrade") {
    Upgraded gateway(true);
    Conversation ann(*gateway);
    Conversation bob(*gateway);
    ann.login("ann");
    bob.send("10 r s'MQTT' 05 00 k10 [ 11 w100 21 k1 ] s'bob'")
        .expect(fmt::format("20 r 00 00 [ {} ]", promises));
    bob.send("82 r k1 [ ] s'news' 02").expect("90 r k1 [ ] 02");
    ann.send("32 r s'news' k1 'one'");
    bob.expect("32 r s'news' k1 [ ] 'one'");
    ann.send("32 r s'news' k2 'two'").expect("40 r k1").expect("40 r k2");
    ann.send("34 r s'news' k3 'three'").expect("50 r k3");
    CHECK(gateway.upgrade() == 2);
    // It is sent again, and is no other message.
    ann.send("3C r s'news' k3 'three'").expect("50 r k3").send("62 r k3").expect("70 r k3");
    bob.send("40 r k1").expect("32 r s'news' k2 [ ] 'two'");
    bob.send("40 r k2").expect("34 r s'news' k3 [ ] 'three'");
    CHECK(gateway.upgrade(1) == 2);
    bob.send("50 r k3").expect("62 r k3");
    CHECK(gateway.upgrade(2) == 2);
    bob.send("70 r k3");
    bob.send("C0 00").expect("D0 00");
    ann.send("30 r s'news' 'four'");
    bob.expect("30 r s'news' [ ] 'four'");
}

TEST_CASE("messages that wait for a client outlive an upgrade, in their order") {
    Upgraded gateway;
    Conversation ann(*gateway);
    Conversation bob(*gateway);
    ann.login("ann");
    bob.send("10 r s'MQTT' 05 02 k10 [ 21 k1 ] s'bob'")
        .expect(fmt::format("20 r 00 00 [ {} ]", promises));
    bob.send("82 r k1 [ 0B 05 ] s'news' 01").expect("90 r k1 [ ] 01");
    for (const char* number : {"1", "2", "3"})
        ann.send("32 r s'news' k" + std::string(number) + " '" + number + "'")
            .expect("40 r k" + std::string(number));
    bob.expect("32 r s'news' k1 [ 0B 05 ] '1'");
    CHECK(gateway.upgrade() == 2);
    bob.send("40 r k1").expect("32 r s'news' k2 [ 0B 05 ] '2'");
    CHECK(gateway.upgrade() == 2);
    bob.send("40 r k2").expect("32 r s'news' k3 [ 0B 05 ] '3'").send("40 r k3");
    bob.send("C0 00").expect("D0 00");
}

TEST_CASE("retained messages go on behind those that were sent before an upgrade") {
    Upgraded gateway(true);
    Conversation ann(*gateway);
    Conversation slow(*gateway, 4096);
    ann.login("ann");
    slow.login("slow");
    std::vector<std::string> expected;
    for (int i = 100; i < 700; ++i) {
        const std::string text = std::to_string(i) + std::string(5000, 'x');
        const std::string notation = "r s'news/" + std::to_string(i) + "' '" + text + "'";
        ann.send("31 " + notation);
        expected.push_back(packet_of("31 " + notation));
    }
    ann.send("C0 00").expect("D0 00");
    slow.send("82 r k1 s'news/+' 00").expect("90 r k1 00");
    while (gateway->output_waiting() == 0) gateway->settle();
    CHECK(gateway.upgrade() == 2);
    std::vector<std::string> got;
    while (got.size() < expected.size()) got.push_back(slow.packet());
    std::ranges::sort(got);
    CHECK(got == expected);
    slow.send("C0 00").expect("D0 00");
}

TEST_CASE("topic aliases of both sides outlive an upgrade") {
    Upgraded gateway;
    Conversation ann(*gateway);
    ann.send("10 r s'MQTT' 05 02 k10 [ 22 k5 ] s'ann'")
        .expect(fmt::format("20 r 00 00 [ {} ]", promises));
    ann.send("82 r k1 [ ] s'news' 00").expect("90 r k1 [ ] 00");
    ann.send("30 r s'news' [ 23 k7 ] 'one'").expect("30 r s'news' [ 23 k1 ] 'one'");
    CHECK(gateway.upgrade() == 1);
    ann.send("30 r s'' [ 23 k7 ] 'two'").expect("30 r s'' [ 23 k1 ] 'two'");
}

TEST_CASE("a packet that had come by half is whole after an upgrade") {
    Upgraded gateway;
    Conversation ann(*gateway);
    ann.login("ann");
    ann.send("82 r k1 s'news' 00").expect("90 r k1 00");
    const std::string packet = packet_of("30 r s'news' 'a long message'");
    ann.send_bytes(packet.substr(0, 9));
    ann.send("").silent();
    gateway->settle();
    CHECK(gateway.upgrade() == 1);
    ann.send_bytes(packet.substr(9)).expect("30 r s'news' 'a long message'");
    // And a byte that nobody has read yet.
    ann.send_bytes(packet.substr(0, 1));
    CHECK(gateway.upgrade() == 1);
    ann.send_bytes(packet.substr(1)).expect("30 r s'news' 'a long message'");
}

TEST_CASE("output that a slow client has not taken comes after an upgrade, whole and once") {
    Upgraded gateway;
    Conversation slow(*gateway, 4096);
    Conversation ann(*gateway);
    slow.login("slow");
    slow.send("82 r k1 s'news' 00").expect("90 r k1 00");
    ann.login("ann");
    const std::string text(100'000, 'x');
    std::string number = "0";
    std::string expected;
    for (; gateway->output_waiting() == 0; ++number[0]) {
        REQUIRE(number[0] < '~');
        std::string packet = packet_of("30 r s'news' '" + number + text + "'");
        expected += packet;
        ann.send_bytes(packet).send("C0 00").expect("D0 00");
        gateway->settle();
    }
    CHECK(gateway.upgrade() == 2);
    std::string got;
    while (got.size() < expected.size()) got += slow.packet();
    CHECK(got == expected);
    slow.send("C0 00").expect("D0 00");
}

TEST_CASE("a WebSocket goes on after an upgrade, in the middle of a message and of a frame") {
    Upgraded gateway;
    Conversation ann(gateway->ws_port());
    ann.send_bytes(
        "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    ann.expect(
        "'HTTP/1.1 101 Switching Protocols' 0D 0A 'Upgrade: websocket' 0D 0A 'Connection: Upgrade' "
        "0D 0A 'Sec-WebSocket-Protocol: mqtt' 0D 0A 'Sec-WebSocket-Accept: "
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=' 0D 0A 0D 0A");
    const std::string mask("\x01\x02\x03\x04", 4);
    const auto masked = [&](std::string bytes) {
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<char>(bytes[i] ^ mask[i % 4]);
        return bytes;
    };
    const auto frame = [&](char first, const std::string& bytes) {
        return std::string(1, first) + static_cast<char>(0x80 | bytes.size()) + mask +
               masked(bytes);
    };
    ann.send_bytes(frame('\x82', packet_of("10 r s'MQTT' 04 02 k10 s'ann'")));
    ann.expect("82 04 20 02 00 00");
    ann.send_bytes(frame('\x82', packet_of("82 r k1 s'news' 00"))).expect("82 05 90 r k1 00");
    const std::string packet = packet_of("30 r s'news' 'one'");
    // The first frame of a message, and of the second one the header and two bytes.
    const std::string second = frame('\x80', packet.substr(3));
    ann.send_bytes(frame('\x02', packet.substr(0, 3)) + second.substr(0, 8));
    gateway->settle();
    CHECK(gateway.upgrade() == 1);
    ann.send_bytes(second.substr(8)).expect("82 0B 30 r s'news' 'one'");
    // And the beginning of a header.
    ann.send_bytes(frame('\x82', packet).substr(0, 3));
    gateway->settle();
    CHECK(gateway.upgrade() == 1);
    ann.send_bytes(frame('\x82', packet).substr(3)).expect("82 0B 30 r s'news' 'one'");
}

TEST_CASE("a gateway that thaws goes on with all its clients") {
    const Gateway gateway;
    Conversation ann(gateway);
    Conversation bob(gateway);
    ann.login("ann");
    bob.login("bob");
    bob.send("82 r k1 s'news' 01").expect("90 r k1 01");
    ann.send("32 r s'news' k1 'one'").expect("40 r k1");
    bob.expect("32 r s'news' k1 'one'");
    const std::string packet = packet_of("32 r s'news' k2 'two'");
    ann.send_bytes(packet.substr(0, 5));
    gateway.settle();
    REQUIRE(gateway.freeze());
    CHECK(gateway.passing().size() == 2);
    ann.send_bytes(packet.substr(5));
    Conversation cat(gateway);
    cat.send("10 r s'MQTT' 04 02 k10 s'cat'");
    gateway.settle();
    CHECK(ann.silent());
    gateway.thaw();
    ann.expect("40 r k2");
    bob.expect("32 r s'news' k2 'two'").send("40 r k1").send("40 r k2");
    bob.send("C0 00").expect("D0 00");
    cat.expect("20 02 00 00");
    REQUIRE(gateway.freeze());
    gateway.thaw();
    ann.send("C0 00").expect("D0 00");
}

TEST_CASE("the pause of an upgrade does not count as silence of the client") {
    StoppedClock clock;
    const Gateway gateway;
    Conversation ann(gateway);
    ann.login("ann", Version::v3_1_1, 10);
    gateway.pass(clock, 14'000);
    REQUIRE(gateway.freeze());
    clock.advance(60'000);
    gateway.thaw();
    gateway.pass(clock, 500);
    ann.send("C0 00").expect("D0 00");
    gateway.pass(clock, 17'000);
    ann.expect_close();
}

TEST_CASE("a client that was silent before the new process began is still given up") {
    constexpr std::int64_t longer_than_any_process = 1'000'000'000'000;
    Upgraded gateway;
    Conversation ann(*gateway);
    ann.login("ann", Version::v3_1_1, 10);
    CHECK(gateway.upgrade(2, longer_than_any_process) == 1);
    ann.expect_close();
}

TEST_CASE("due messages are published once, or cancelled, after an upgrade that failed") {
    constexpr int in_a_second = 8000;
    constexpr int messages = in_a_second + 5;
    const TemporaryFolder folder;
    StoppedClock clock;
    const Gateway gateway([&](Config& config) { config.data = folder.path("data"); });
    Conversation bob(gateway);
    Conversation ann(gateway);
    bob.login("bob");
    bob.send("82 r k1 s'news' 00").expect("90 r k1 00");
    ann.login("ann", Version::v5_0);
    std::string all;
    for (int i = 1; i <= in_a_second; ++i)
        all += packet_of(fmt::format("30 r s'$delayed/3/news' [ ] '{}'", i));
    ann.send_bytes(all);
    for (int i = in_a_second + 1; i <= messages; ++i) {
        ann.send(fmt::format("32 r s'$delayed/3/news' k1 [ 26 s'delay-id' s'n{0}' ] '{0}'", i));
        REQUIRE(ann.packet()[0] == '\x40');
    }
    gateway.pass(clock, 4000);
    std::vector<std::string> got;
    while (got.size() < in_a_second) got.push_back(bob.packet());
    bob.expect_nothing();
    gateway.fail_to_upgrade();
    ann.send(fmt::format("32 r s'$delayed/cancel/n{}' k1 [ ]", messages)).expect("40 02 k1");
    gateway.pass(clock, 1000);
    while (got.size() < messages - 1) got.push_back(bob.packet());
    gateway.pass(clock, 2000);
    bob.expect_nothing();
    std::ranges::sort(got);
    CHECK(std::ranges::adjacent_find(got) == got.end());
}

TEST_CASE("a client passes in an upgrade unless its password is another one by then") {
    const TemporaryFolder folder;
    const std::string users = folder.path("users");
    set_password(users, "ann", "one", 10, FileMust::be_new);
    set_password(users, "bob", "one", 10);
    Upgraded gateway(false, users);
    Conversation ann(*gateway);
    Conversation bob(*gateway);
    ann.send("10 r s'MQTT' 04 C2 k10 s'ann' s'ann' s'one'").expect("20 02 00 00");
    bob.send("10 r s'MQTT' 04 C2 k10 s'bob' s'bob' s'one'").expect("20 02 00 00");
    CHECK(gateway.upgrade() == 2);
    set_password(users, "bob", "two", 10);
    CHECK(gateway.upgrade() == 1);
    ann.send("C0 00").expect("D0 00");
    bob.expect_close();
}

TEST_CASE("a client that is not logged in yet stays behind in an upgrade") {
    Upgraded gateway;
    Conversation silent(*gateway);
    Conversation ann(*gateway);
    ann.login("ann");
    gateway->await_connections(2);
    CHECK(gateway.upgrade() == 1);
    CHECK(gateway.left == 1);
    silent.expect_close();
    ann.send("C0 00").expect("D0 00");
}

TEST_CASE("the wills and the inbox of clients pass in an upgrade") {
    Upgraded gateway(true);
    Conversation ann(*gateway);
    std::optional<Conversation> bob(*gateway);
    ann.login("ann");
    ann.send("82 r k1 s'wills' 00").expect("90 r k1 00");
    ann.send("32 r s'inbox/bob' k2 'before'").expect("40 r k2");
    bob->send("10 r s'MQTT' 04 06 k10 s'bob' s'wills' s'gone'").expect("20 02 00 00");
    bob->expect("32 r s'inbox/bob' k1 'before'");
    CHECK(gateway.upgrade() == 2);
    bob->send("40 r k1");
    ann.send("32 r s'inbox/bob' k3 'after'").expect("40 r k3");
    bob->expect("32 r s'inbox/bob' k2 'after'").send("40 r k2");
    bob->send("C0 00").expect("D0 00");
    bob->reset();
    ann.expect("30 r s'wills' 'gone'");
}
