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
    double message_time;  ///< ns that each message takes, of one connection; 0: none
    double byte_time;
    Millis websocket_ping;         ///< 0: none
    std::string server_reference;  ///< where clients may go that are asked to leave; "": unknown
};

/// What the connections of a shard do not do, while it prepares for another process to take them.
enum class Rest : std::uint8_t {
    none,
    reading,  ///< they read no packets, and send what is still brought about
    all,      ///< nor do they write: another process may have them
};

/// What the connections of one shard share: each refers to this and to nothing else, so that it has
/// one pointer instead of as many as this has members. The transport owns it, on the shard's
/// thread.
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

    Wheel wheel;  ///< on which every open connection waits
    std::size_t connections = 0;
    ShardPart backlog;     ///< bytes that sockets have not taken yet
    ShardPart unfinished;  ///< bytes of unfinished packets
    Rest rest = Rest::none;
    TurnWork turn;
    SharedInput input;
    SpareBuffers spare_buffers;
    FlushList flush_list;
    ParkedConnections parked;
    TurnQueue unread;            ///< that have left something to read in an earlier turn
    TurnQueue unauthenticated;   ///< that have said something, and are not logged in yet
    TurnQueue handshakes;        ///< of TLS, that begin
    TurnQueue begun_handshakes;  ///< of TLS, that go on: they should end before others begin
    TurnQueue lost;              ///< that have broken, and are to be ended
};

}  // namespace pulsegate
