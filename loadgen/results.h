#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loadgen/measure/histogram.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The measurements of a run: `verdict.h` judges them, `report.h` shows them.
struct Results {
    struct Connections {
        std::uint32_t connected = 0;
        std::uint32_t failed = 0;
        Duration took{};
        Histogram time;  ///< from the connect to the SUBACK
    } connections;

    struct Traffic {
        Duration ran{};  ///< from the end of the ramp to the beginning of the drain
        std::uint64_t packets_sent = 0;
        std::uint64_t packets_received = 0;
        Duration cpu{};  ///< used by the generator in that time
    } traffic;

    struct Messages {
        std::uint64_t planned = 0;
        std::uint64_t unsent = 0;  ///< planned, but sender or receiver was disconnected
        std::uint64_t sent = 0;
        std::uint64_t received = 0;  ///< each counted once
        std::uint64_t lost = 0;
        std::uint64_t duplicated = 0;
        std::uint64_t misdirected = 0;  ///< for another client, damaged, or not of this run
        std::uint64_t excused = 0;      ///< lost or unsent because the generator let clients starve
        std::uint64_t acknowledged = 0;    ///< QoS 1: PUBACKs
        std::uint64_t unacknowledged = 0;  ///< QoS 1: not excused
        Histogram latency;                 ///< from the planned time to the arrival
        Histogram lag;  ///< part of the latency: from the planned time to the send
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
        std::uint32_t unclear = 0;     ///< closed during a stall of the generator: not in `expiry`
        std::uint32_t still_open = 0;  ///< open past limit and tick
        std::uint32_t unjudged = 0;    ///< the run was interrupted before the limit
        Histogram expiry;              ///< from the last send to the close
        std::map<std::string, std::uint32_t> disconnect_reasons;  ///< MQTT 5
    } silence;

    /// Measurements of the storm's clients.
    struct Storm {
        std::uint32_t vanished = 0;
        std::uint32_t back = 0;
        std::uint32_t refused = 0;  ///< for good, by a CONNACK with another reason than busy
        std::uint32_t retried = 0;  ///< clients that had to try again
        std::uint64_t attempts = 0;
        std::uint64_t busy = 0;  ///< attempts that the server refused as busy
        std::uint64_t dropped =
            0;  ///< attempts whose connection was lost, or not answered for 10 s
        // From the moment at which the clients vanished:
        Duration vanishing{};    ///< until the generator had reset all connections
        Duration setting_out{};  ///< until it had begun the first attempt of each
        Duration took{};         ///< until the last one was back
        Duration behind{};       ///< how late the storm's thread was, at most
        Histogram return_time;   ///< until its SUBACK, attempts and waits included
        Histogram
            attempt_time;  ///< of the attempts that succeeded, from their connect to the SUBACK
    } storm;

    /// Measurements of the established clients in a part of the run.
    struct Period {
        Histogram latency;
        Histogram lag;
        Histogram ping;
    };
    Period quiet;     ///< before the storm
    Period in_storm;  ///< until all are back

    std::uint32_t false_offline = 0;
    std::uint32_t starved = 0;  ///< talkers closed because the generator sent too late

    std::uint32_t stalls = 0;  ///< delays of the generator's event loop beyond `stall`
    Duration longest_stall{};
    std::uint16_t server_keepalive = 0;  ///< MQTT 5, seconds; 0: the server kept ours

    bool interrupted = false;
    std::vector<std::string> notes;
    std::vector<std::string> examples;  ///< the first few failures as text

    /// Adds the results of the storm's clients to those of the established ones.
    void add_storm(const Results& others);
};

}  // namespace pulsegate::load
