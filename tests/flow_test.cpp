#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/session/terms/homes.h"
#include "tests/support/gateway.h"
#include "tests/support/patience.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// A 5.0 client that states these properties in its CONNECT.
Conversation stating(const Gateway& gateway, const std::string& client,
                     const std::string& properties) {
    Conversation c(gateway);
    c.send("10 r s'MQTT' 05 02 k10 [ " + properties + " ] s'" + client + "'")
        .expect("20 r 00 00 [ " + std::string(promises) + " ]");
    return c;
}

}  // namespace

TEST_CASE("no more QoS 1 messages are in flight than the client's Receive Maximum") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        Conversation sender(gateway);
        sender.login(at_home(0, "sender"));
        auto receiver = stating(gateway, at_home(shard, "receiver"), "21 k2");
        receiver.send("82 r k1 [ ] s'x' 01").expect("90 r k1 [ ] 01");
        for (const char digit : {'1', '2', '3', '4', '5'})
            sender.send("32 r s'x' k" + std::string(1, digit) + " '" + digit + "'")
                .expect("40 02 k" + std::string(1, digit));
        sender.send("30 r s'x' 'QoS 0 passes'").expect_nothing();
        receiver
            .expect("32 r s'x' k1 [ ] '1' | 32 r s'x' k2 [ ] '2' | 30 r s'x' [ ] 'QoS 0 passes'")
            .expect_nothing();
        receiver.send("40 02 k2").expect("32 r s'x' k3 [ ] '3'").expect_nothing();
        receiver.send("40 02 k1 | 40 02 k3").expect("32 r s'x' k4 [ ] '4' | 32 r s'x' k5 [ ] '5'");
        receiver.send("40 02 k4 | 40 03 k5 80").expect_nothing();
    }
}

TEST_CASE("a client that acknowledges nothing gets 256 messages and no more") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation receiver(gateway);
    sender.login("sender");
    receiver.login("receiver").send("82 r k1 s'x' 01").expect("90 03 k1 01");
    std::string messages;
    for (int i = 1; i <= 300; ++i) messages += wire("32 r s'x' k" + std::to_string(i));
    sender.send_bytes(messages);
    for (int i = 1; i <= 300; ++i) sender.expect("40 02 k" + std::to_string(i));
    for (int i = 1; i <= 256; ++i) receiver.expect("32 r s'x' k" + std::to_string(i));
    receiver.expect_nothing();
    receiver.send("40 02 k256").expect("32 r s'x' k257").expect_nothing();
}

TEST_CASE("packet identifiers that are in flight are not used again") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p").send("82 r k1 s'x' 01").expect("90 03 k1 01");
    c.send("32 r s'x' k1").expect("32 r s'x' k1 | 40 02 k1");  // and stays in flight
    constexpr int batch = 250;
    const auto messages = wire("32 r s'x' k1 '!'");
    std::string batch_of_messages;
    for (int i = 0; i < batch; ++i) batch_of_messages += messages;
    int id = 1;
    for (int sent = 0; sent < 66'000; sent += batch) {
        c.send_bytes(batch_of_messages);
        std::string expected;
        std::string acknowledgements;
        for (int i = 0; i < batch; ++i) {
            id = id == 65'535 ? 2 : id + 1;  // 0 is none, 1 is taken
            const auto k = " k" + std::to_string(id);
            expected += (i ? " | 32 r s'x'" : "32 r s'x'") + k + " '!' | 40 02 k1";
            acknowledgements += wire("40 02" + k);
        }
        c.expect(expected).send_bytes(acknowledgements);
    }
    c.expect_nothing();
}

TEST_CASE("a message that is larger than a client takes is not sent to it") {
    Gateway gateway;
    Conversation sender(gateway);
    sender.login("sender");
    auto small = stating(gateway, "small", "27 w100");
    small.send("82 r k1 [ ] s'x' 01").expect("90 r k1 [ ] 01");
    sender.send("32 r s'x' k1 'x'*93 | 32 r s'x' k2 'x'*92 | 30 r s'x' 'x'*95 | 30 r s'x' 'fits'")
        .expect("40 02 k1 | 40 02 k2");
    small.expect("32 r s'x' k2 [ ] 'x'*92 | 30 r s'x' [ ] 'fits'").expect_nothing();
}

TEST_CASE("a message that is too large leaves no identifier to be given twice") {
    Gateway gateway;
    Conversation sender(gateway);
    sender.login("sender");
    auto small = stating(gateway, "small", "27 w200");
    small.send("82 r k1 [ ] s'x' 01").expect("90 r k1 [ ] 01");
    const auto pass = [&](int first, int last) {
        std::string messages;
        std::string copies;
        std::string acknowledgements;
        for (int id = first; id <= last; ++id) {
            const std::string separator = id == first ? "" : " | ";
            messages += separator + "32 r s'x' k" + std::to_string(id);
            copies += separator + "32 r s'x' k" + std::to_string(id) + " [ ]";
            acknowledgements += separator + "40 02 k" + std::to_string(id);
        }
        sender.send(messages);
        small.expect(copies).send(acknowledgements).expect_nothing();
        sender.expect(acknowledgements);
    };
    sender.send("32 r s'x' k1 'stays in flight'").expect("40 02 k1");
    small.expect("32 r s'x' k1 [ ] 'stays in flight'");
    for (int id = 2; id <= 65'535; id += 100) pass(id, std::min(id + 99, 65'535));

    sender.send("32 r s'x' k1 'x'*300 | 32 r s'x' k2 'fits'").expect("40 02 k1 | 40 02 k2");
    CHECK(published(small.packet(), v5).packet_id != 1);
}

TEST_CASE("a client that comes back to more than its socket takes at once is not disconnected") {
    constexpr int messages = 250;
    Gateway gateway([](Config& config) { config.output_budget = 16 * 1024; });
    {
        Conversation slow(gateway);
        slow.send("10 r s'MQTT' 04 00 k10 s'slow'").expect("20 r 00 00");
        slow.send("82 r k1 s'x' 01").expect("90 03 k1 01").send("e0 00").expect_close();
    }
    Conversation sender(gateway);
    sender.login(at_home(Homes(2).shard_of("slow"), "sender"));
    for (int i = 1; i <= messages; ++i) sender.send("32 r s'x' k1 'y'*15000").expect("40 02 k1");
    Conversation slow(gateway, 4096);
    slow.send("10 r s'MQTT' 04 00 k10 s'slow'").expect("20 r 01 00");
    sender.expect_nothing();  // their shard has done what it wanted to do at once
    for (int i = 1; i <= messages; ++i) {
        slow.expect("32 r s'x' k" + std::to_string(i) + " 'y'*15000");
        slow.send("40 02 k" + std::to_string(i));
    }
    slow.expect_nothing();
}

TEST_CASE("packets may come byte by byte") {
    Gateway gateway;
    Conversation c(gateway);
    for (const char byte : wire("10 r s'MQTT' 05 02 k10 [ 21 k9 ] s'p' | 82 r k1 [ ] s'x' 00 | "
                                "30 r s'x' [ 03 s't' ] 'hello' | c0 00"))
        c.send_bytes({&byte, 1});
    c.expect("20 r 00 00 [ " + std::string(promises) +
             " ] | 90 r k1 [ ] 00 | 30 r s'x' [ 03 s't' ] 'hello' | d0 00");
}

TEST_CASE("packets may come in pieces of any size") {
    Gateway gateway;
    const std::string stream =
        wire("10 r s'MQTT' 04 02 k10 s'p' | 82 r k1 s'x' 00 | 30 r s'x' 'y'*200 | c0 00 | c0 00");
    for (std::size_t size = 1; size < stream.size(); size += 7) {
        Conversation c(gateway);
        for (std::size_t at = 0; at < stream.size(); at += size)
            c.send_bytes(std::string_view(stream).substr(at, size));
        c.expect("20 02 00 00 | 90 03 k1 00 | 30 r s'x' 'y'*200 | d0 00 | d0 00");
    }
}

TEST_CASE("ten thousand packets in one write are all answered") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p").send("c000*10000").expect("d000*10000");
}

TEST_CASE("the largest packet passes, and one byte more is refused with 0x95 before it has come") {
    Gateway gateway([](Config& config) { config.max_packet_size = 2000; });
    Conversation c(gateway);
    c.login("p").send("82 r k1 s'x' 00").expect("90 03 k1 00");
    c.send("30 r s'x' 'y'*1994").expect("30 r s'x' 'y'*1994");
    c.send("30 r1998 s'x' 'y'").expect_close();

    Conversation newer(gateway);
    newer.send("10 r s'MQTT' 05 02 k10 [ ] s'q'").packet();
    newer.send("30 r1998 s'x' [ ]").expect_close(Reason::packet_too_large);
    Conversation(gateway).send("10 r1998").expect_close();
}

TEST_CASE("a consumer that does not read is cut, and others get their messages") {
    Gateway gateway([](Config& config) {
        config.max_packet_size = 16 * 1024;
        config.output_budget = 64 * 1024;
    });
    for (const char* qos : {"00", "01"})
        for (const unsigned shard : {0u, 1u}) {
            CAPTURE(qos);
            CAPTURE(shard);
            Conversation sender(gateway);
            Conversation reader(gateway);
            Conversation sleeper(gateway, 4096);
            Conversation watcher(gateway);
            const auto lazy = at_home(shard, "lazy at " + std::string(qos) + " ");
            watcher.login("watcher");
            sender.login(at_home(0, "sender"));
            reader.login(at_home(shard, "reader")).send("82 r k1 s'x' 00").expect("90 03 k1 00");
            sleeper.login(lazy).send("82 r k1 s'x' " + std::string(qos));
            sleeper.expect("90 03 k1 " + std::string(qos));
            watcher.send("82 r k1 s'presence/" + lazy + "' 00").expect("90 03 k1 00");
            watcher.packet();

            const auto message = wire("32 r s'x' k1 'y'*16000");
            const auto copy = wire("30 r s'x' 'y'*16000");
            for (int i = 0; i < 1000; ++i) {
                sender.send_bytes(message).expect("40 02 k1");
                REQUIRE(reader.packet() == copy);
            }
            const auto gone = watcher.packet();
            CHECK(published(gone).payload.find("kicked") != std::string_view::npos);
            CHECK(gateway.has_logged("of user '" + lazy + "': kicked: slow consumer"));
            sender.expect_nothing();
            reader.expect_nothing();
            // What the socket had taken comes, then the close.
            CHECK(sleeper.rest().size() < 1000 * copy.size());
        }
}

TEST_CASE("output that waits for clients that do not read counts together on all shards") {
    constexpr std::size_t budget = 4 * 1024 * 1024;
    const char* const cut = "slow consumer: total output budget exceeded";
    Gateway gateway([](Config& config) {
        config.output_budget = budget;
        config.total_output_budget = budget;
    });
    Conversation sender(gateway);
    sender.login(at_home(0, "sender"));
    const auto publish = [&](const std::string& topic) {
        sender.send("32 r s'" + topic + "' k1 'y'*16000").expect("40 02 k1");
        return gateway.output_waiting();
    };
    Conversation first(gateway, 4096);
    first.login(at_home(0, "first")).send("82 r k1 s'a' 00").expect("90 03 k1 00");
    while (publish("a") < budget / 10 * 4) REQUIRE_FALSE(gateway.has_logged(cut));

    Conversation second(gateway, 4096);
    second.login(at_home(1, "second")).send("82 r k1 s'b' 00").expect("90 03 k1 00");
    std::size_t most = 0;
    REQUIRE(comes_true([&] {
        if (gateway.has_logged(cut)) return true;
        most = std::max(most, publish("b"));
        return false;
    }));
    CHECK(most < budget / 4 * 3);  // it had three tenths, which was as much as nobody had
    gateway.await_connections(2);  // and only the second is cut
}

TEST_CASE("a peer that resets its connection harms nobody") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("bystander");
    for (const char* before : {"", "10", "10 r s'MQTT' 04 02 k10 s'p'",
                               "10 r s'MQTT' 04 02 k10 s'p' | 82 r k1 s'#' 00 | 30 r100 s'x'"})
        for (int i = 0; i < 20; ++i) {
            Conversation rude(gateway);
            rude.send(before).reset();
        }
    c.expect_nothing();
}

TEST_CASE("a flood from one shard reaches another whole and in order") {
    constexpr int messages = 60'000;
    Gateway gateway;
    Conversation sender(gateway);
    Conversation receiver(gateway);
    sender.login(at_home(0, "sender"));
    receiver.login(at_home(1, "receiver")).send("82 r k1 s'x' 00").expect("90 03 k1 00");
    at_once({[&] {
                 std::string flood;
                 for (int i = 0; i < messages; ++i)
                     flood += wire("30 r s'x' '" + std::to_string(i) + "'");
                 sender.send_bytes(flood).expect_nothing();
             },
             [&] {
                 for (int i = 0; i < messages; ++i) {
                     const auto packet = receiver.packet();
                     if (published(packet).payload == std::to_string(i)) continue;
                     FAIL_CHECK("message ", i, " is ", published(packet).payload);
                     return;
                 }
             }});
    receiver.expect_nothing();
}

TEST_CASE("one read that brings more work than a turn allows is done in several") {
    constexpr int messages = 2'000;
    constexpr int receivers = 5;
    Gateway gateway([](Config& config) { config.shards = 1; });
    std::vector<Conversation> room;
    for (int i = 0; i < receivers; ++i) {
        room.emplace_back(gateway);
        room.back().login("r" + std::to_string(i)).send("82 r k1 s'x' 00").expect("90 03 k1 00");
    }
    Conversation sender(gateway);
    sender.login("sender");
    std::string burst;
    for (int i = 0; i < messages; ++i) burst += wire("30 r s'x' '" + std::to_string(i) + "'");
    sender.send_bytes(burst).expect_nothing();
    for (auto& receiver : room) {
        for (int i = 0; i < messages; ++i)
            REQUIRE(published(receiver.packet()).payload == std::to_string(i));
        receiver.expect_nothing();
    }
}
