#pragma once

#include <algorithm>
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

/// Clients that behave alike. Rates are for all clients of the group together.
struct Group {
    std::string name;
    unsigned line = 0;  ///< of the scenario file
    std::uint32_t clients = 0;

    // How they connect.
    TransportKind transport = TransportKind::tcp;
    bool transport_given = false;  ///< otherwise it is the transport of the first server
    Version version = Version::v3_1_1;
    std::chrono::seconds keepalive{20};
    bool kept_session = false;  ///< they ask the server to keep their sessions while they are away

    // How they arrive: `starts` after the beginning of the run, `ramp` clients per second. Clients
    // that start at once are connected before the measured part begins.
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
    std::uint32_t watches = 0;  ///< number of clients of group `watched` that each of them watches
    std::uint32_t watched = 0;  ///< index of a group

    // How they come and go.
    double silent = 0;         ///< share that falls silent permanently ...
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

/// A period with higher or lower rates, such as an evening peak.
struct Peak {
    Duration from{};
    Duration to{};
    double factor = 1;
};

/// The actions of a run, and its requirements for the server.
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
    Duration drain = std::chrono::seconds(5);      ///< for messages in flight at the end

    /// Silent clients must be closed `limit` after their last packet (zero: one and a half
    /// keepalives, MQTT 3.1.2.10), at most one tick (1 s) and `tolerance` later.
    Duration limit{};
    Duration tolerance = std::chrono::milliseconds(100);
    Duration ping_within = std::chrono::seconds(1);
    Duration message_within{};  ///< p99 of messages; zero: not asked
    Duration storm_within = std::chrono::seconds(60);
    double storm_factor = 5;  ///< p99 of messages in a storm, divided by the quiet p99

    /// Hostile clients come this long after the ramp, so that their effect can be measured; zero:
    /// they are there from the start.
    Duration hostile_after{};
    double hostile_factor = 5;  ///< p99 of messages and pings with them, divided by the p99 before

    std::uint64_t seed = 0;  ///< seed of all random choices; 0: a different one in each run

    std::uint32_t clients() const;
    /// How many well-behaved clients are planned to have logged in by this time after the start of
    /// the run. If a group arrives slowly, its last clients may come later.
    std::uint32_t due_by(Duration elapsed) const;
    /// A message to a connected client, and an acknowledgement, are late after this time. Two round
    /// trips take as long, as at QoS 2. At least, it leaves room for a stall of another worker that
    /// is too short to refuse a verdict. In a cluster, messages wait while a link or Redis is
    /// replaced.
    Duration late_after(bool is_cluster) const {
        const Duration least = std::chrono::seconds(is_cluster ? 10 : 2);
        return std::max<Duration>(ping_within * 2, least);
    }
    /// The planned packets per second from all clients, in the steady state.
    double packets() const;
    /// The packets for one message of a group, including acknowledgements.
    double packets_per_message(const Group& group) const;
    /// Silence after which the server must close a client of this group.
    Duration limit_of(const Group& group) const;
    /// The number of the group's first client. Clients are numbered group by group, from 0.
    std::uint32_t first_of(std::size_t group) const;

    /// The time from the end of the ramp until every single event of the scenario is over: silent
    /// clients are closed, storms are over, and hostile clients were there for as long as the quiet
    /// time before.
    Duration settled_after() const;
};

}  // namespace pulsegate::load
