#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loadgen/histogram.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// What a run measured. Plain numbers: judging them is `verdict.h`, showing them `report.h`.
struct Results {
    struct Connections {
        std::uint32_t connected = 0;
        std::uint32_t failed = 0;
        Duration took{};
        Histogram time;  ///< from the connect to the SUBACK
    } connections;

    struct Traffic {
        Duration ran{};  ///< from the end of the ramp to the begin of the drain
        std::uint64_t packets_sent = 0;
        std::uint64_t packets_received = 0;
        Duration cpu{};  ///< used by the generator in that time
    } traffic;

    struct Messages {
        std::uint64_t planned = 0;
        std::uint64_t unsent = 0;  ///< planned, but nobody was left to send or receive it
        std::uint64_t sent = 0;
        std::uint64_t received = 0;  ///< each counted once
        std::uint64_t lost = 0;
        std::uint64_t duplicated = 0;
        std::uint64_t misdirected = 0;   ///< came to the wrong client, damaged, or from elsewhere
        std::uint64_t excused = 0;       ///< lost or unsent since the generator let clients starve
        std::uint64_t acknowledged = 0;  ///< QoS 1: PUBACKs
        std::uint64_t unacknowledged = 0;  ///< QoS 1: not excused
        Histogram latency;                 ///< from the planned time to the arrival
        Histogram lag;                     ///< of it, from the planned time to the send
    } messages;

    struct Pings {
        std::uint64_t sent = 0;
        std::uint64_t answered = 0;
        std::uint64_t overdue = 0;
        Histogram time;
    } pings;

    struct Silence {
        std::uint32_t silent = 0;
        std::uint32_t in_time = 0;
        std::uint32_t early = 0;
        std::uint32_t late = 0;
        std::uint32_t unclear = 0;     ///< closed, but the generator had stalled: not in `expiry`
        std::uint32_t still_open = 0;  ///< past limit and tick
        std::uint32_t unjudged = 0;    ///< the run was interrupted before
        Histogram expiry;              ///< from the last send to the close
        std::map<std::string, std::uint32_t> farewells;  ///< MQTT 5: reasons of the DISCONNECTs
    } silence;

    /// What the clients of the storm met.
    struct Storm {
        std::uint32_t vanished = 0;
        std::uint32_t back = 0;
        std::uint32_t refused = 0;      ///< for good, by a CONNACK that does not say busy
        std::uint32_t turned_away = 0;  ///< clients that had to try again
        std::uint64_t attempts = 0;
        std::uint64_t busy = 0;  ///< attempts that were told so
        std::uint64_t dropped =
            0;  ///< attempts whose connection was lost, or not answered for 10 s
        // All from the moment at which they vanished:
        Duration vanishing{};    ///< until the generator had reset all connections
        Duration setting_out{};  ///< until it had begun everybody's first attempt
        Duration took{};         ///< until the last one was back
        Duration behind{};       ///< how late the generator's thread was with it, if it stalled
        Histogram return_time;   ///< of each until its SUBACK, all attempts and waits included
        Histogram
            attempt_time;  ///< of the attempts that succeeded, from their connect to the SUBACK
    } storm;

    /// What the established clients met in a part of the run.
    struct Period {
        Histogram latency;
        Histogram lag;
        Histogram ping;
    };
    Period quiet;     ///< before the storm
    Period in_storm;  ///< until all are back

    std::uint32_t false_offline = 0;
    std::uint32_t starved =
        0;  ///< talkers closed rightly, since the generator sent nothing in time

    std::uint32_t stalls = 0;  ///< times the generator did not get to run
    Duration longest_stall{};
    std::uint16_t server_keepalive = 0;  ///< MQTT 5; 0: the server did not overrule ours

    bool interrupted = false;
    std::vector<std::string> notes;
    std::vector<std::string> examples;  ///< the first few failures in words

    /// Adds what the storm's clients did and met, to what the established ones did.
    void add_storm(const Results& others);
};

}  // namespace pulsegate::load
