#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "tests/support/gateway.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

void usual(Config&) {}  // idle-timeout 30 s
void hasty(Config& config) {
    config.idle_timeout = 1000;
    config.login_timeout = 1000;
}
void strict(Config& config) {
    config.idle_timeout = 1000;
    config.strict_idle_timeout = true;
}

/// A gateway and its time, which passes when the test says so.
struct Timed {
    explicit Timed(const std::function<void(Config&)>& adjust) : gateway(adjust) {}

    void pass(Millis time) { gateway.pass(clock, time); }

    /// Sends one byte every 100 ms, as long as the gateway neither answers nor closes.
    void dribble(Conversation& c, const std::string& bytes) {
        for (const char byte : bytes) {
            if (!c.silent()) return;
            c.send_bytes({&byte, 1});
            pass(step);
        }
    }

    static constexpr Millis step = 100;

    StoppedClock clock;
    Gateway gateway;
};

}  // namespace

TEST_CASE("silence ends a connection at its limit, or at most one tick later") {
    struct Row {
        void (*settings)(Config&);
        Version version;
        std::uint16_t keepalive;
        Millis limit;
    };
    for (const auto& [settings, version, keepalive, limit] : {
             Row{usual, v4, 1, 1500},
             Row{usual, v5, 1, 1500},
             Row{usual, v4, 2, 3000},
             Row{hasty, v4, 0, 1000},  // the idle timeout rules
             Row{hasty, v5, 0, 1500},  // a server keepalive of 1 s was told
             Row{hasty, v5, 2, 3000},  // no more than max-keepalive
             Row{usual, v5, 60, 90'000},
             Row{usual, v5, 600, 90'000},  // a server keepalive of 60 s was told
             Row{hasty, v4, 2, 3000},      // asked for more and can't be told
             Row{strict, v4, 2, 1000},
             Row{strict, v4, 0, 1000},
             Row{strict, v5, 60, 1500},  // a server keepalive of 1 s was told
             Row{strict, v5, 0, 1500},
         })
        for (const Millis after_tick : {0, 1, 400, 999}) {
            CAPTURE(version);
            CAPTURE(keepalive);
            CAPTURE(after_tick);
            Timed timed(settings);
            timed.pass(tick_length - monotonic_now() % tick_length + after_tick);
            Conversation c(timed.gateway);
            const auto k = " k" + std::to_string(keepalive) + " ";
            c.send(version == v4 ? "10 r s'MQTT' 04 02" + k + "s'c'"
                                 : "10 r s'MQTT' 05 02" + k + "[ ] s'c'");
            c.packet();
            timed.pass(300);
            c.send("c0 00").expect("d0 00");
            timed.pass(limit - 1);
            CHECK(c.silent());
            timed.pass(1 + tick_length);
            version == v4 ? c.expect_close() : c.expect_close(Reason::keep_alive_timeout);
        }
}

TEST_CASE("signs of life keep a connection") {
    struct Row {
        void (*settings)(Config&);
        Version version;
    };
    for (const auto& [settings, version] : {Row{usual, v4}, Row{usual, v5}, Row{hasty, v4}}) {
        Timed timed(settings);
        Conversation c(timed.gateway);
        c.login("talker", version, 1);
        for (int i = 0; i < 4; ++i) {
            timed.pass(500);
            c.expect_nothing();  // by a PINGREQ
            timed.pass(500);
            c.send(version == v4 ? "30 r s'x'" : "30 r s'x' [ ]");  // by any other packet
        }
        c.expect_nothing();
    }
}

TEST_CASE("a client that never logs in is closed at the login timeout") {
    Timed timed(hasty);
    Conversation c(timed.gateway);
    timed.gateway.await_connections(1);
    timed.pass(999);
    CHECK(c.silent());
    timed.pass(1 + tick_length);
    c.expect_close();
}

TEST_CASE("a client that sends its CONNECT byte by byte is closed at the login timeout") {
    Timed timed(hasty);
    Conversation c(timed.gateway);
    timed.gateway.await_connections(1);
    const Millis start = monotonic_now();
    timed.dribble(c, wire("10 r s'MQTT' 04 02 k1 s'" + std::string(50, 'x') + "'"));
    c.expect_close();
    CHECK(monotonic_now() - start >= 1000);
    CHECK(monotonic_now() - start <= 1000 + tick_length + Timed::step);
}

TEST_CASE("a client that sends a packet byte by byte is closed at its limit") {
    Timed timed(usual);
    Conversation c(timed.gateway);
    c.login("dribbler", v5, 1);
    const Millis start = monotonic_now();
    timed.dribble(c, wire("30 r s'x' [ ] '" + std::string(100, 'x') + "'"));
    c.expect_close(Reason::keep_alive_timeout);
    CHECK(monotonic_now() - start >= 1500);
    CHECK(monotonic_now() - start <= 1500 + tick_length + Timed::step);
}

TEST_CASE("a long packet that is complete in time keeps the connection") {
    Timed timed(usual);
    Conversation c(timed.gateway);
    c.login("slow but steady", v4, 1).send("82 r k1 s'y' 00").expect("90 03 k1 00");
    for (int i = 0; i < 4; ++i) {
        timed.dribble(c, wire("30 r s'y' 12345678"));
        c.expect("30 r s'y' 12345678");
    }
}

TEST_CASE(
    "a client that falls silent is offline with the cause timeout, and its will is published") {
    Timed timed(usual);
    Conversation watcher(timed.gateway);
    watcher.login("watcher")
        .send("82 r k1 s'presence/sleeper' 00 s'will' 00")
        .expect("90 04 k1 00 00");
    Conversation sleeper(timed.gateway);
    sleeper.send("10 r s'MQTT' 04 06 k1 s'sleeper' s'will' s'gone'").expect("20 02 00 00");
    const auto online = watcher.packet();
    CHECK(published(online).topic == "presence/sleeper");
    timed.pass(1500 + tick_length);
    sleeper.expect_close();
    watcher.expect("30 r s'will' 'gone'");
    const auto offline = watcher.packet();
    const auto payload = published(offline).payload;
    CHECK(payload.find(R"("state":"offline")") != std::string_view::npos);
    CHECK(payload.find(R"("cause":"timeout")") != std::string_view::npos);
    CHECK(timed.gateway.has_logged("client 'sleeper' of user 'sleeper': timeout: silent too long"));
}
