#pragma once

#include <array>
#include <cstdint>

#include "protocol/packet.h"
#include "protocol/reason.h"
#include "server/base/histogram.h"
#include "server/base/limit.h"
#include "server/base/tls_idle.h"

namespace pulsegate {

/// Counts the events of one shard since the start. Only the shard's thread reads and writes them;
/// other threads ask the shard for a copy.
struct Counters {
    using PerPacket = std::array<std::uint64_t, 16>;   ///< by PacketType
    using PerReason = std::array<std::uint64_t, 128>;  ///< by Reason, from 0x80 on

    PerPacket packets_in{};
    PerPacket packets_out{};
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t accepted = 0;
    std::uint64_t logins = 0;
    PerReason logins_refused{};
    std::uint64_t login_timeouts = 0;
    std::uint64_t takeovers = 0;
    std::uint64_t expiries = 0;
    std::uint64_t sessions_expired = 0;
    std::uint64_t sessions_over_quota = 0;  ///< ended early by persistent-session-quota
    std::uint64_t expiry_false_alarms = 0;  ///< due connections that had unread bytes
    std::uint64_t handshakes_refused = 0;   ///< at the PROXY header, TLS or WebSocket
    std::array<std::uint64_t, tls_idle_names.size()> tls_handshakes{};  ///< by TlsIdle
    std::uint64_t bad_packets = 0;
    std::uint64_t messages_in = 0;
    std::uint64_t messages_out = 0;
    std::uint64_t dropped_too_large = 0;      ///< larger than the client's Maximum Packet Size
    std::uint64_t dropped_refused = 0;        ///< a reserved topic, or a payload that isn't UTF-8
    std::uint64_t dropped_expired = 0;        ///< older than their Message Expiry Interval
    std::uint64_t dropped_queue_full = 0;     ///< the oldest in the queue of a client
    std::uint64_t dropped_session_ended = 0;  ///< in the queue of a session that ended
    std::uint64_t dropped_damaged = 0;        ///< can't be read from disk any more
    std::uint64_t dropped_no_member = 0;      ///< of a shared subscription without members
    std::uint64_t dropped_no_inbox = 0;       ///< for a user without a session, over max-inboxes
    std::uint64_t dropped_no_receiver = 0;    ///< nobody subscribes, and it is not retained
    std::uint64_t not_retained = 0;           ///< delivered, but over max-retained
    std::uint64_t delayed_published = 0;
    std::uint64_t events_withheld = 0;  ///< left out of the event log: peers caused too many

    /// How often a client reached the limit, by Limit.
    std::array<std::uint64_t, limits> hits{};

    /// Delays of the event loop's ticks, in milliseconds.
    Histogram<1, 2, 5, 10, 50, 100, 500, 1000, 5000> lag;
    Millis lag_last = 0;

    /// Times from reading a PUBLISH to writing it into the buffer of a connected subscriber, in
    /// milliseconds.
    Histogram<1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000> delivery;

    void count_lag(Millis late) {
        lag.count(late);
        lag_last = late;
    }

    void count_refused_login(Reason reason) {
        ++logins_refused[static_cast<std::size_t>(reason) & 0x7F];
    }
    void count(Limit limit) { ++hits[static_cast<std::size_t>(limit)]; }
    void count(TlsIdle idle) { ++tls_handshakes[static_cast<std::size_t>(idle)]; }
    void count_out(PacketType type) { ++packets_out[static_cast<std::size_t>(type)]; }
    void count_in(PacketType type) { ++packets_in[static_cast<std::size_t>(type)]; }
};

}  // namespace pulsegate
