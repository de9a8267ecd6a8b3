#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <string_view>

#include "loadgen/measure/histogram.h"

namespace pulsegate::load {

/// The counters. `info` has the meaning of each. If a counter can be above zero although the server
/// did everything right, its name says what the generator did, and does not name a fault.
enum class Count : std::uint8_t {
    // Connections.
    connects,        ///< attempts
    connected,       ///< logins that ended in a SUBACK (or a CONNACK without anything to subscribe)
    entered,         ///< clients that were connected at least once
    connect_failed,  ///< attempts that the server refused or lost, except `refused_busy`
    refused_busy,
    resumed,                   ///< logins that found the kept session again
    session_lost,              ///< a kept session that the server no longer had
    filters_refused,           ///< of a SUBSCRIBE, except presence filters
    presence_filters_granted,  ///< filters for the presence of a user
    presence_filters_refused,
    violations,  ///< of the protocol, by the server
    kept_out,  ///< clients that had been connected, and were refused or lost repeatedly at the end
    // All packets.
    packets_sent,
    packets_received,
    bytes_sent,
    bytes_received,
    pings_sent,
    pings_answered,
    pings_late,  ///< answered after more than the scenario's `ping-within`
    pings_unanswered,
    // Messages: published once, expected once by each receiver.
    messages_planned,
    messages_unsent,  ///< planned while their sender was not connected
    messages_sent,
    messages_expected,  ///< deliveries that must happen; this is known at the end
    messages_received,  ///< deliveries, each counted once
    messages_lost,
    messages_crossed,         ///< received, from a client of another node of the cluster
    messages_lost_crossing,   ///< lost, likewise
    messages_repeated,        ///< QoS 1, without DUP, on one connection, or after the PUBACK
    messages_repeated_qos2,   ///< QoS 2 or QoS 0: never allowed
    messages_reordered,       ///< after a later message of the same sender, receiver and QoS
    messages_misdirected,     ///< for another receiver
    messages_damaged,         ///< not what was sent, or not of this run
    messages_forged,          ///< named another user as their sender
    messages_late,            ///< for a connected receiver, after the scenario's `late_after`
    messages_in_doubt,        ///< their sender's connection broke before they were acknowledged
    messages_missed_away,     ///< their receiver was away and keeps no session
    messages_missed_closed,   ///< their receiver was away because the server closed it wrongly
    messages_excused,         ///< missing because the generator let a client starve
    acknowledged,             ///< QoS 1: PUBACK, QoS 2: PUBCOMP
    acknowledged_late,        ///< after the scenario's `late_after`
    acknowledged_disorderly,  ///< behind an acknowledgement of a later message
    unacknowledged,
    unreleased,         ///< received at QoS 2, and the server sent no PUBREL
    publishes_refused,  ///< acknowledged with an error
    // Liveness.
    false_offline,  ///< closed although it kept talking
    starved,        ///< closed because the generator sent too late
    token_expired,  ///< closed after the life of the token that it had shown
    silent,         ///< fell silent without closing
    closed_in_time,
    closed_early,
    closed_late,
    never_closed,
    closed_unclear,  ///< closed during a stall of the generator, without a limit, or by the
                     ///< generator after a violation of the protocol
    // What watchers were told about others.
    presence_changes,
    presence_false_offline,  ///< shown offline although it was alive
    presence_ghosts,         ///< shown online although it was gone longer than its limit
    presence_out_of_order,   ///< an older version after a newer one
    presence_contradicted,   ///< a different state than before for the same version
    presence_missing,        ///< a change that at least one watcher was not told
    presence_late,           ///< a login that was shown late to all watchers
    presence_unseen,         ///< a user that no watcher was ever told about
    presence_outdated,       ///< an old state, or none, for a watcher that came
    // The server's HTTP answers to questions for users' presence.
    presence_asked,       ///< users
    presence_unanswered,  ///< users, too
    presence_http_false_offline,
    presence_http_ghosts,
    presence_http_out_of_order,
    // Comings and goings that the scenario asked for.
    naps,
    network_changes,
    vanished,
    // Hostile clients.
    hostile_started,
    hostile_closed,  ///< by the server
    // The generator itself.
    stalls,  ///< its event loop came back later than `stall`
    count_
};

enum class Timing : std::uint8_t {
    login,           ///< from the connect to the SUBACK
    tcp_connect,     ///< part of the login: until TCP was connected
    message,         ///< from the planned time to the arrival, for connected receivers
    message_return,  ///< the same for messages that waited for their receiver
    send_lag,        ///< part of `message`: from the planned time to the send
    acknowledgement,
    ping,
    expiry,        ///< from the last packet of a silent client to its close
    detection,     ///< from the last packet of a client to "offline" at a watcher
    appearance,    ///< from the CONNECT of a client to "online" at a watcher
    back_again,    ///< from the moment of a storm until the client is back
    last_attempt,  ///< of a storm: the attempt that succeeded
    loop_lag,      ///< how late the generator's event loop was
    count_
};

/// A sample of one second. The values of several workers are added, or the largest counts; for
/// `server_silence`, the smallest.
enum class Gauge : std::uint8_t {
    clients_open,
    clients_silent,
    clients_away,
    clients_waiting,  ///< clients that wait for their next attempt
    worker_cpu,       ///< share of a core, all workers
    worker_cpu_max,   ///< share of a core, the busiest worker
    worker_wait,      ///< share of the time in which a worker was ready to run, but other programs
                      ///< ran
    server_cpu,       ///< share of a core
    server_wait,      ///< the same as `worker_wait`, for the server's thread that waited longest
    server_memory,    ///< bytes, resident
    server_threads,
    server_files,     ///< open ones
    server_loop_lag,  ///< seconds, the worst of its event loops
    server_connections,
    server_silence,  ///< seconds, the longest time in which nothing came from the server
    machine_busy,    ///< share of all cores
    machine_steal,   ///< share of all cores that the hypervisor gave to others
    count_
};

/// A row for reports: `name` in JSON, `unit` ("" for plain numbers, "bytes", "cores", "s") and what
/// it means in a few words.
struct MeasureInfo {
    std::string_view name;
    std::string_view unit;
    std::string_view meaning;
};
const MeasureInfo& info(Count count);
const MeasureInfo& info(Timing timing);
const MeasureInfo& info(Gauge gauge);

inline constexpr auto counts_size = static_cast<std::size_t>(Count::count_);
inline constexpr auto timings_size = static_cast<std::size_t>(Timing::count_);
inline constexpr auto gauges_size = static_cast<std::size_t>(Gauge::count_);

/// Counts and times of a stretch of a run, of one worker or of all: they can be added up.
class Measurements {
public:
    void add(Count count, std::uint64_t many = 1) { counts_[index(count)] += many; }
    void add(Timing timing, Duration value) { timings_[index(timing)].add(value); }
    void add_all(Timing timing, const Histogram& values) { timings_[index(timing)].add(values); }
    void set(Gauge gauge, double value);

    std::uint64_t operator[](Count count) const { return counts_[index(count)]; }
    const Histogram& operator[](Timing timing) const { return timings_[index(timing)]; }
    /// Negative if there is no value.
    double operator[](Gauge gauge) const { return gauges_[index(gauge)]; }

    /// Adds the measurements of another worker or another stretch.
    void merge(const Measurements& others);

    bool empty() const;

private:
    template <class Enum>
    static constexpr std::size_t index(Enum value) {
        return static_cast<std::size_t>(value);
    }

    std::array<std::uint64_t, counts_size> counts_{};
    std::array<Histogram, timings_size> timings_;
    std::array<double, gauges_size> gauges_ = [] {
        std::array<double, gauges_size> none{};
        none.fill(-1);
        return none;
    }();
};

/// For control connections and result files: only values that are not empty, by name.
boost::json::object to_json(const Measurements& measurements);

/// Unknown names are ignored. Throws `std::runtime_error` if the value is not a measurement.
Measurements measurements_from(const boost::json::value& value);

}  // namespace pulsegate::load
