#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/base/counters.h"
#include "server/base/gateway_sum.h"
#include "server/loop/rounds.h"
#include "server/session/trace/tracer.h"
#include "server/transport/connections/connection_owner.h"
#include "server/transport/connections/flush_list.h"
#include "server/transport/connections/handoff.h"
#include "server/transport/connections/parked_connections.h"
#include "server/transport/connections/shared_input.h"
#include "server/transport/connections/spare_buffers.h"
#include "server/transport/connections/turn_queue.h"
#include "server/transport/connections/turn_work.h"
#include "wheel/wheel.h"

namespace pulsegate {

struct TransportSettings {
    std::size_t max_packet_size;
    std::size_t output_budget;
    std::size_t total_output_budget;  ///< of all connections of the gateway
    std::size_t unfinished_budget;    ///< bytes of their unfinished packets
    Millis login_timeout;
    double message_time;  ///< ns per message of one connection; 0: no limit
    double byte_time;
    Millis websocket_ping;         ///< 0: none
    std::string server_reference;  ///< the server for clients that are asked to leave; "": unknown
};

/// What the connections of a shard stop doing while another process prepares to take them over.
enum class Rest : std::uint8_t {
    none,
    reading,  ///< they read no packets, but still send
    all,      ///< they do not write either: another process may take them
};

/// The objects that the connections of one shard share. A connection has one pointer to this
/// context instead of one to each member. The transport owns it, on the shard's thread.
struct ConnectionContext {
    ConnectionContext(Rounds& its_rounds, const TransportSettings& limits, ConnectionCounts counted,
                      Counters& statistics, Tracer& traces, ConnectionOwner& shard);

    Rounds& rounds;
    Tracer& tracer;
    TransportSettings settings;
    const ConnectionCounts counts;
    std::vector<std::string> listener_names;                             ///< by their numbers
    std::vector<std::size_t> connections_by_listener = {std::size_t{}};  ///< as well
    Counters& counters;
    ConnectionOwner& owner;

    Wheel wheel;         ///< on which every open connection waits
    Tick postponed = 0;  ///< by how many ticks the waits for clients of lost edges were postponed
    std::size_t connections = 0;
    std::size_t elsewhere = 0;  ///< connections with their sockets on other nodes
    ShardPart backlog;          ///< bytes that sockets have not accepted yet
    ShardPart unfinished;       ///< bytes of unfinished packets
    Rest rest = Rest::none;
    TurnWork turn;
    SharedInput input;
    SpareBuffers spare_buffers;
    FlushList flush_list;
    ParkedConnections parked;
    TurnQueue unread;            ///< connections with unread input from an earlier round
    TurnQueue unauthenticated;   ///< connections with input that are not logged in yet
    TurnQueue handshakes;        ///< TLS handshakes that begin
    TurnQueue begun_handshakes;  ///< TLS handshakes in progress: they should end before others
                                 ///< begin
    TurnQueue lost;              ///< broken connections that must be ended
};

}  // namespace pulsegate
