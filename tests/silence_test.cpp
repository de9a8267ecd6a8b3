#include <doctest/doctest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

constexpr Version v4 = Version::v3_1_1;
constexpr Version v5 = Version::v5_0;

/// What a busy machine may add to an ending.
constexpr auto tolerance = 250ms;

/// The gateway closes now if the last packet was sent when the watch was started: not before the
/// limit, and at most one tick after it.
void check_closed_at(const Stopwatch& silence, std::chrono::milliseconds limit) {
    CHECK(silence.elapsed() >= limit);
    CHECK(silence.elapsed() <= limit + 1s + tolerance);
}

/// Sends one byte every 100 ms until the gateway has closed.
void dribble(Conversation& c, const std::string& bytes) {
    for (const char byte : bytes) {
        char answer;
        if (::recv(c.socket(), &answer, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) return;
        c.send_bytes({&byte, 1});
        std::this_thread::sleep_for(100ms);
    }
}

}  // namespace

TEST_CASE("silence ends a connection at its limit, and signs of life keep it") {
    Gateway usual;  // idle-timeout 30 s
    Gateway hasty([](Config& config) {
        config.idle_timeout = 1000;
        config.login_timeout = 1000;
    });
    Gateway strict([](Config& config) {
        config.idle_timeout = 1000;
        config.strict_idle_timeout = true;
    });

    // For each: what it says, to whom, and how long it may then be silent.
    const auto falls_silent = [](Gateway& gateway, const char* client, Version version,
                                 std::uint16_t keepalive, std::chrono::milliseconds limit) {
        return [&gateway, client, version, keepalive, limit] {
            Conversation c(gateway);
            const auto k = " k" + std::to_string(keepalive) + " ";
            const auto id = "s'" + std::string(client) + "'";
            c.send(version == v4 ? "10 r s'MQTT' 04 02" + k + id
                                 : "10 r s'MQTT' 05 02" + k + "[ ] " + id);
            c.packet();
            std::this_thread::sleep_for(std::chrono::milliseconds(client[0] * 37 % 400));
            const Stopwatch silence;
            c.send("c0 00").expect("d0 00");
            version == v4 ? c.expect_close() : c.expect_close(Reason::keep_alive_timeout);
            check_closed_at(silence, limit);
        };
    };
    const auto keeps_talking = [](Gateway& gateway, const char* client, Version version) {
        return [&gateway, client, version] {
            Conversation c(gateway);
            c.login(client, version, 1);
            for (int i = 0; i < 4; ++i) {
                std::this_thread::sleep_for(500ms);
                c.expect_nothing();  // by a PINGREQ
                std::this_thread::sleep_for(500ms);
                c.send(version == v4 ? "30 r s'x'" : "30 r s'x' [ ]");  // by any other packet
            }
            c.expect_nothing();
        };
    };

    at_once({
        falls_silent(usual, "a", v4, 1, 1500ms),
        falls_silent(usual, "b", v5, 1, 1500ms),
        falls_silent(usual, "c", v4, 2, 3000ms),
        falls_silent(hasty, "d", v4, 0, 1000ms),    // the idle timeout rules
        falls_silent(hasty, "e", v5, 0, 1500ms),    // a server keepalive of 1 s was told
        falls_silent(hasty, "f", v5, 600, 1500ms),  // the same
        falls_silent(hasty, "g", v4, 2, 3000ms),    // asked for more and can't be told
        falls_silent(strict, "h", v4, 2, 1000ms),
        falls_silent(strict, "i", v4, 0, 1000ms),
        keeps_talking(usual, "t1", v4),
        keeps_talking(usual, "t2", v5),
        keeps_talking(hasty, "t3", v4),

        // Who never logs in.
        [&] {
            const Stopwatch silence;
            Conversation(hasty).expect_close();
            check_closed_at(silence, 1s);
        },
        // Who begins to, and goes on byte by byte.
        [&] {
            const Stopwatch silence;
            Conversation c(hasty);
            dribble(c, wire("10 r s'MQTT' 04 02 k1 s'" + std::string(50, 'x') + "'"));
            c.expect_close();
            check_closed_at(silence, 1s);
        },
        // Who is logged in and sends a packet byte by byte.
        [&] {
            Conversation c(usual);
            const Stopwatch silence;
            c.login("dribbler", v5, 1);
            dribble(c, wire("30 r s'x' [ ] '" + std::string(100, 'x') + "'"));
            c.expect_close(Reason::keep_alive_timeout);
            check_closed_at(silence, 1500ms);
        },
        // A long packet that is complete in time is life.
        [&] {
            Conversation c(usual);
            c.login("slow but steady", v4, 1).send("82 r k1 s'y' 00").expect("90 03 k1 00");
            for (int i = 0; i < 4; ++i) {
                dribble(c, wire("30 r s'y' 12345678"));
                c.expect("30 r s'y' 12345678");
            }
        },
    });
}

TEST_CASE("who falls silent is offline with the cause timeout, and the will is published") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login("watcher")
        .send("82 r k1 s'presence/sleeper' 00 s'will' 00")
        .expect("90 04 k1 00 00");
    Conversation sleeper(gateway);
    sleeper.send("10 r s'MQTT' 04 06 k1 s'sleeper' s'will' s'gone'").expect("20 02 00 00");
    const auto online = watcher.packet();
    CHECK(published(online).topic == "presence/sleeper");
    sleeper.expect_close();
    watcher.expect("30 r s'will' 'gone'");
    const auto offline = watcher.packet();
    const auto payload = published(offline).payload;
    CHECK(payload.find(R"("state":"offline")") != std::string_view::npos);
    CHECK(payload.find(R"("cause":"timeout")") != std::string_view::npos);
    CHECK(Gateway::logged("client 'sleeper': timeout: silent too long"));
}
