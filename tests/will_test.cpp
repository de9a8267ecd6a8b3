#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/gateway.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// How the connection with the will ends.
enum class End {
    lost,
    reset,
    timeout,
    thrown_out,
    leaves,          // DISCONNECT, in 5.0 with 0x00
    leaves_will,     // DISCONNECT 0x04
    ends_session,    // DISCONNECT 0x04 that makes the session end with the connection
    prolongs,        // DISCONNECT 0x04 that makes the session last a minute
    taken_over,      // by a connection without a clean start
    taken_over_anew  // by one with a clean start
};

/// What the client does when the gateway knows.
enum class Then { stays_away, returns, returns_as_older, returns_and_goes, begins_anew };

/// When a subscriber sees the will.
enum class Seen { never, promptly, in_a_second };

using enum End;
using enum Then;
using enum Seen;

constexpr bool clean = true;
constexpr bool resuming = false;
constexpr int minute = 60;

/// One life of a client with a will. Expiry and delay are in seconds, and 5.0's.
struct Row {
    Version version;
    bool clean_start;
    int expiry;
    int delay;
    End end;
    Then then;
    Seen seen;
};

// clang-format off
const std::vector<Row> rows = {
    // 3.1.1: any end but DISCONNECT, whatever becomes of the session
    {v4, clean,    0,      0,      lost,            stays_away,       promptly},
    {v4, resuming, 0,      0,      lost,            stays_away,       promptly},
    {v4, clean,    0,      0,      reset,           stays_away,       promptly},
    {v4, clean,    0,      0,      timeout,         stays_away,       promptly},
    {v4, resuming, 0,      0,      timeout,         returns,          promptly},
    {v4, clean,    0,      0,      thrown_out,      stays_away,       promptly},
    {v4, resuming, 0,      0,      thrown_out,      returns,          promptly},
    {v4, clean,    0,      0,      leaves,          stays_away,       never},
    {v4, resuming, 0,      0,      leaves,          stays_away,       never},
    {v4, resuming, 0,      0,      leaves,          returns_and_goes, never},
    {v4, clean,    0,      0,      taken_over,      stays_away,       promptly},
    {v4, resuming, 0,      0,      taken_over,      stays_away,       promptly},
    {v4, clean,    0,      0,      taken_over_anew, stays_away,       promptly},
    {v4, resuming, 0,      0,      taken_over_anew, stays_away,       promptly},
    {v4, resuming, 0,      0,      lost,            returns_and_goes, promptly},

    // 5.0 without a delay: the same, and after DISCONNECT 0x04
    {v5, clean,    0,      0,      lost,            stays_away,       promptly},
    {v5, clean,    minute, 0,      lost,            stays_away,       promptly},
    {v5, resuming, minute, 0,      lost,            returns_and_goes, promptly},
    {v5, clean,    minute, 0,      reset,           stays_away,       promptly},
    {v5, clean,    minute, 0,      timeout,         stays_away,       promptly},
    {v5, clean,    minute, 0,      thrown_out,      returns,          promptly},
    {v5, clean,    0,      0,      leaves,          stays_away,       never},
    {v5, clean,    minute, 0,      leaves,          stays_away,       never},
    {v5, clean,    minute, 0,      leaves,          returns_and_goes, never},
    {v5, clean,    0,      0,      leaves_will,     stays_away,       promptly},
    {v5, clean,    minute, 0,      leaves_will,     stays_away,       promptly},
    {v5, clean,    0,      0,      taken_over,      stays_away,       promptly},
    {v5, clean,    minute, 0,      taken_over,      stays_away,       promptly},
    {v5, clean,    minute, 0,      taken_over_anew, stays_away,       promptly},

    // 5.0 with a delay, but a session that ends with its connection
    {v5, clean,    0,      minute, lost,            stays_away,       promptly},
    {v5, clean,    0,      minute, timeout,         stays_away,       promptly},
    {v5, clean,    0,      minute, leaves,          stays_away,       never},
    {v5, clean,    0,      minute, leaves_will,     stays_away,       promptly},
    {v5, clean,    minute, minute, ends_session,    stays_away,       promptly},
    {v5, clean,    0,      minute, taken_over,      stays_away,       promptly},
    {v5, clean,    0,      minute, taken_over_anew, stays_away,       promptly},

    // 5.0 with a delay that ends first
    {v5, clean,    minute, 1,      lost,            stays_away,       in_a_second},
    {v5, resuming, minute, 1,      lost,            stays_away,       in_a_second},
    {v5, clean,    minute, 1,      reset,           stays_away,       in_a_second},
    {v5, clean,    minute, 1,      timeout,         stays_away,       in_a_second},
    {v5, clean,    minute, 1,      thrown_out,      stays_away,       in_a_second},
    {v5, clean,    minute, 1,      leaves,          stays_away,       never},
    {v5, clean,    minute, 1,      leaves_will,     stays_away,       in_a_second},
    {v5, clean,    1,      1,      lost,            stays_away,       in_a_second},
    {v5, clean,    1,      1,      prolongs,        stays_away,       in_a_second},

    // 5.0 with a delay, and a session that expires first
    {v5, clean,    1,      minute, lost,            stays_away,       in_a_second},
    {v5, clean,    1,      minute, timeout,         stays_away,       in_a_second},
    {v5, clean,    1,      minute, leaves_will,     stays_away,       in_a_second},
    {v5, clean,    1,      minute, leaves,          stays_away,       never},
    {v5, clean,    1,      minute, prolongs,        stays_away,       never},

    // 5.0 with a delay, and a client that returns before it has passed
    {v5, clean,    minute, 1,      lost,            returns,          never},
    {v5, clean,    minute, 1,      timeout,         returns,          never},
    {v5, clean,    minute, 1,      thrown_out,      returns,          never},
    {v5, clean,    minute, 1,      leaves_will,     returns,          never},
    {v5, clean,    minute, 1,      lost,            returns_as_older, never},
    {v5, clean,    minute, 1,      lost,            returns_and_goes, never},
    {v5, clean,    1,      minute, lost,            returns,          never},
    {v5, clean,    minute, 1,      taken_over,      stays_away,       never},
    {v5, resuming, minute, minute, taken_over,      stays_away,       never},
    {v5, clean,    minute, minute, lost,            begins_anew,      promptly},
    {v5, clean,    1,      minute, lost,            begins_anew,      promptly},
    {v5, clean,    minute, minute, leaves,          begins_anew,      never},
    {v5, clean,    minute, minute, taken_over_anew, stays_away,       promptly},
};
// clang-format on

/// The shorter delay and expiry of the rows.
constexpr Millis a_second = 1000;

/// With a keepalive of 2 s. It is a whole number of ticks, so the last tick that passes ends the
/// connection, and the delay begins at that time.
constexpr Millis longest_silence = 3000;

/// A CONNECT of the row's client. Only the one with the will has the row's own expiry.
std::string connect(const Row& row, const std::string& client, const std::string& topic) {
    const std::string clean_flag = row.clean_start ? "06" : "04";
    const std::string keepalive = row.end == timeout ? " k2 " : " k20 ";
    const auto start = "10 r s'MQTT' 0" + std::to_string(static_cast<int>(row.version)) + " " +
                       clean_flag + keepalive;
    const auto id = "s'" + client + "' ";
    const auto will = "s'" + topic + "' s'gone'";
    if (row.version == v4) return start + id + will;
    return start + "[ 11 w" + std::to_string(row.expiry) + " ] " + id + "[ 18 w" +
           std::to_string(row.delay) + " ] " + will;
}

/// The client's next connection, without a will.
Conversation come_again(const Gateway& gateway, Version version, const std::string& client,
                        bool clean_start) {
    const std::string flags = clean_start ? "02" : "00";
    Conversation c(gateway);
    if (version == v4)
        c.send("10 r s'MQTT' 04 " + flags + " k20 s'" + client + "'");
    else
        c.send("10 r s'MQTT' 05 " + flags + " k20 [ 11 w60 ] s'" + client + "'");
    c.packet();
    return c;
}

/// The gateway knows of the end when this returns. A connection that took over is what is left.
std::vector<Conversation> bring_about(const Gateway& gateway, StoppedClock& clock, const Row& row,
                                      const std::string& client, Conversation& c) {
    std::vector<Conversation> left;
    switch (row.end) {
        case lost: c.close_writing(); break;
        case reset: {
            Conversation presence(gateway);
            presence.login("watcher of " + client);
            presence.send("82 r k1 s'presence/" + client + "' 00").expect("90 03 k1 00").packet();
            c.reset();
            presence.packet();
            return left;
        }
        case timeout: gateway.pass(clock, longest_silence + tick_length); break;
        case thrown_out: c.send("c1 00"); break;
        case leaves: c.send("e0 00"); break;
        case leaves_will: c.send("e0 01 04"); break;
        case ends_session: c.send("e0 r 04 [ 11 w0 ]"); break;
        case prolongs: c.send("e0 r 04 [ 11 w60 ]"); break;
        case taken_over:
        case taken_over_anew:
            left.push_back(come_again(gateway, row.version, client, row.end == taken_over_anew));
    }
    c.rest();
    return left;
}

void check(const Gateway& gateway, StoppedClock& clock, const Row& row, int number) {
    CAPTURE(number);
    const unsigned shard = static_cast<unsigned>(number % 2);
    const auto client = at_home(shard, "client" + std::to_string(number) + "-");
    const auto topic = "will/" + std::to_string(number);
    const auto will = "30 r s'" + topic + "' 'gone'";
    Conversation watcher(gateway);
    watcher.login(at_home(1 - shard, "watcher" + std::to_string(number) + "-"), v4, 20);
    watcher.send("82 r k1 s'" + topic + "' 00").expect("90 03 k1 00");

    Conversation c(gateway);
    c.send(connect(row, client, topic)).packet();
    watcher.expect_nothing();
    auto open = bring_about(gateway, clock, row, client, c);
    if (row.then != stays_away) {
        const Version version = row.then == returns_as_older ? v4 : row.version;
        open.push_back(come_again(gateway, version, client, row.then == begins_anew));
        if (row.then == returns_and_goes) open.back().close();
    }

    if (row.seen == promptly) watcher.expect(will);
    gateway.pass(clock, a_second);
    watcher.expect_nothing();
    gateway.pass(clock, tick_length);
    if (row.seen == in_a_second) watcher.expect(will);
    gateway.pass(clock, a_second);
    watcher.expect_nothing();
}

}  // namespace

TEST_CASE("a will is seen when it must be, and never twice") {
    StoppedClock clock;
    Gateway gateway;
    int number = 0;
    for (const auto& row : rows) check(gateway, clock, row, number++);
}

TEST_CASE("the longest will delay waits until the session ends") {
    StoppedClock clock;
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login("watcher").send("82 r k1 s'w' 01").expect("90 03 k1 01");
    Conversation c(gateway);
    c.send("10 r s'MQTT' 05 06 k10 [ 11 w3 ] s'dying' [ 18 ffffffff ] s'w' s'gone'").packet();
    c.close_writing();
    c.rest();
    gateway.pass(clock, 3 * a_second);
    watcher.expect_nothing();
    gateway.pass(clock, tick_length);
    watcher.expect("30 r s'w' 'gone'");
}
