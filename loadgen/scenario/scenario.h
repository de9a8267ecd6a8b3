#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/time.h"
#include "protocol/packet.h"

namespace pulsegate::load {

enum class TransportKind : std::uint8_t { tcp, tls, ws, wss };

/// How a client goes away.
enum class Leave : std::uint8_t {
    disconnect,  ///< DISCONNECT and close
    reset,       ///< TCP reset: the server learns of it at once
    vanish,      ///< sends nothing more and reads nothing: a dead zone, or a network that changed
};

enum class Hostile : std::uint8_t {
    none,
    half_open,    ///< connects and never sends CONNECT, or half of it
    slow_reader,  ///< subscribes to much and reads little
    dribbler,     ///< sends its packets byte by byte
    duel,         ///< two connections fight for one client identifier
    garbage,      ///< random bytes, or valid packets in the wrong place
    subscriber,   ///< subscribes to everything that it may
    herd,         ///< connects and vanishes, again and again
};

/// A value between two, chosen evenly.
template <class Value>
struct Range {
    Value least{};
    Value most{};
};

/// Clients that behave alike. Of their number, rates are of all of them together.
struct Group {
    std::string name;
    unsigned line = 0;  ///< of the scenario file
    std::uint32_t clients = 0;

    // Who they are.
    TransportKind transport = TransportKind::tcp;
    bool transport_given = false;  ///< else it is that of the first server
    Version version = Version::v3_1_1;
    std::chrono::seconds keepalive{20};
    bool kept_session = false;  ///< they ask the server to keep their session while they are away

    // How they arrive: `starts` after the begin of the run, `ramp` a second. Who starts at once
    // is there before the measured part begins.
    Duration starts{};
    double ramp = 2000;

    // What they send: to clients of group `to`, to the rooms of group `to`, or nothing.
    double messages = 0;  ///< a second
    enum class To : std::uint8_t { nobody, clients, rooms } to_what = To::nobody;
    std::uint32_t to = 0;                ///< index of a group
    std::uint32_t contacts = 4;          ///< clients (or rooms) that one of them writes to
    std::array<double, 3> qos{1, 0, 0};  ///< shares of the contacts written to at QoS 0, 1, 2
    Range<std::uint32_t> size{64, 64};   ///< bytes of payload

    // What they read besides their own topic.
    std::uint32_t rooms = 0;  ///< rooms of this group; each of its clients is in `rooms_each`
    std::uint32_t rooms_each = 1;
    std::uint32_t watches = 0;  ///< clients of group `watched` whose presence each of them watches
    std::uint32_t watched = 0;  ///< index of a group

    // How they come and go.
    double silent = 0;         ///< share that falls silent for good ...
    Duration silent_after{};   ///< ... this long after the ramp ...
    Duration silent_over{};    ///< ... spread over this time
    Range<Duration> online{};  ///< time between two naps; zero: no naps
    Range<Duration> away{};    ///< length of a nap
    Leave leave = Leave::disconnect;
    double network_changes = 0;  ///< a second: a new connection while the old one is half open
    bool storm = false;          ///< all of them vanish and come back at once ...
    Duration storm_after{};      ///< ... this long after the ramp; they neither write nor go silent

    Hostile hostile = Hostile::none;
};

/// More or less of all rates for a while: an evening peak.
struct Peak {
    Duration from{};
    Duration to{};
    double factor = 1;
};

/// What a run does and what it asks of the server.
struct Scenario {
    /// The server promises to close a silent client within one tick of its wheel after the limit.
    static constexpr Duration server_tick = std::chrono::seconds(1);

    /// Clients that keep talking ping after a random part of the keepalive between these.
    static constexpr double earliest_ping = 0.75;
    static constexpr double latest_ping = 1.0;

    std::string name;
    std::string about;
    std::vector<Group> groups;
    std::vector<Peak> peaks;
    Duration duration = std::chrono::seconds(45);  ///< after the ramp
    Duration drain = std::chrono::seconds(5);      ///< for what is under way at the end

    /// Silent clients must be closed `limit` after their last packet (zero: one and a half
    /// keepalives, MQTT 3.1.2.10), at most one tick (1 s) and `tolerance` later.
    Duration limit{};
    Duration tolerance = std::chrono::milliseconds(100);
    Duration ping_within = std::chrono::seconds(1);
    Duration message_within{};  ///< p99 of messages; zero: not asked
    Duration storm_within = std::chrono::seconds(60);
    double storm_factor = 5;  ///< p99 of messages in a storm over the quiet one

    /// Hostile clients come so long after the ramp, to see what they change; zero: they are there
    /// from the start.
    Duration hostile_after{};
    double hostile_factor = 5;  ///< p99 of messages and pings with them over the one before

    std::uint64_t seed = 0;  ///< of everything random; 0: another one in each run

    std::uint32_t clients() const;
    /// Of those that behave, how many are planned to have logged in by then, from the start of the
    /// run: the later ones of a group that arrives slowly may be too late for it.
    std::uint32_t due_by(Duration elapsed) const;
    /// Packets that all clients are planned to send a second, in the steady state.
    double packets() const;
    /// Of that, what one message of a group costs: acknowledgements are packets too.
    double packets_per_message(const Group& group) const;
    /// Silence after which the server must close a client of this group.
    Duration limit_of(const Group& group) const;
    /// Of client `number` (0 to `clients()` - 1): groups are numbered one after the other.
    const Group& group_of(std::uint32_t number) const;
    std::uint32_t first_of(std::size_t group) const;

    /// From the end of the ramp until everything that the scenario does once has been seen: silent
    /// clients closed, storms over, hostile clients there for as long as they were not.
    Duration settled_after() const;
};

}  // namespace pulsegate::load
