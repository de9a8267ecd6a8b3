#pragma once

#include <cstdint>
#include <vector>

#include "protocol/decode.h"
#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/session/terms/link.h"

namespace pulsegate {

class Connection;

/// A CONNECT, decoded, with the bytes that it views. Moving it moves neither.
struct ReceivedConnect {
    std::vector<std::uint8_t> bytes;
    Connect connect;
};

/// What the connections of a shard tell the shard, on its thread.
class ConnectionOwner {
public:
    /// The first packet. Before it returns, the owner answers it, ends or releases the connection,
    /// or tells it to wait (`Connection::hold`).
    virtual void on_connect(Connection& connection, ReceivedConnect connect, Millis now) = 0;
    /// Any packet after the first.
    virtual void on_packet(Connection& connection, const Packet& packet, Millis now) = 0;
    /// Its client has been told that it is logged in, for which the connection was held.
    virtual void on_connack(Connection& connection) = 0;
    virtual void on_drained(Connection& connection) = 0;
    /// It sends too fast, for the first time, and is read more slowly from now on.
    virtual void on_slowed(Connection& connection) = 0;
    virtual void on_end(Connection& connection, const Ending& ending, Millis now) = 0;

    /// A whole packet that has come or goes out, while something is traced.
    virtual void on_traced(const Connection& connection, Bytes packet, Version version,
                           Sender sender) = 0;

    /// Has its client logged in, and was told so?
    virtual bool is_accepted(const Connection& connection) const = 0;

    /// Has its client sent messages that are not answered yet?
    virtual bool has_unanswered(const Connection& connection) const = 0;

    /// Should its client publish no more until some of its messages are answered?
    virtual bool awaits_answers(const Connection& connection) const = 0;

    /// A measure of the work done since the beginning; a message to one client is one.
    virtual std::uint64_t work() const = 0;

    /// Do others lag so far behind what this shard sends them that it should read no more?
    virtual bool congested() = 0;

protected:
    ~ConnectionOwner() = default;
};

}  // namespace pulsegate
