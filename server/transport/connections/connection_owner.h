#pragma once

#include <cstdint>
#include <vector>

#include "protocol/decode.h"
#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/session/terms/link.h"

namespace pulsegate {

class Connection;

/// A decoded CONNECT, with the bytes that it views. A move keeps both valid.
struct ReceivedConnect {
    std::vector<std::uint8_t> bytes;
    Connect connect;
};

/// What the connections of a shard report to the shard, on its thread.
class ConnectionOwner {
public:
    /// The first packet. Before it returns, the owner answers it, ends or releases the connection,
    /// or tells it to wait (`Connection::hold`).
    virtual void on_connect(Connection& connection, ReceivedConnect connect, Millis now) = 0;
    /// Any packet after the first.
    virtual void on_packet(Connection& connection, const Packet& packet, Millis now) = 0;
    /// The same for a connection that forwards its packets to another node.
    virtual void on_forwarded(Connection& connection, Bytes packet) = 0;
    /// The connection was held for its login, and its client got the CONNACK.
    virtual void on_connack(Connection& connection) = 0;
    virtual void on_drained(Connection& connection) = 0;
    /// The client sends too fast for the first time. From now on it is read more slowly.
    virtual void on_slowed(Connection& connection) = 0;
    /// The node with its client's socket is gone. The client may come back on another one.
    virtual void on_lost_edge(Connection& connection) = 0;
    virtual void on_end(Connection& connection, const Ending& ending, Millis now) = 0;

    /// A complete packet that was received or is sent, while a trace runs.
    virtual void on_traced(const Connection& connection, Bytes packet, Version version,
                           Sender sender) = 0;

    /// Is its client logged in, and did it get the CONNACK?
    virtual bool is_accepted(const Connection& connection) const = 0;

    /// Has its client sent messages that are not answered yet?
    virtual bool has_unanswered(const Connection& connection) const = 0;

    /// Must its client stop publishing until some of its messages are answered?
    virtual bool awaits_answers(const Connection& connection) const = 0;
    /// The time after which to check again whether they are answered.
    virtual Millis answer_pause() const = 0;

    /// A measure of the work done since the beginning; a message to one client is one.
    virtual std::uint64_t work() const = 0;

    /// Are other shards so far behind with this shard's messages that it should stop reading?
    virtual bool congested() = 0;

protected:
    ~ConnectionOwner() = default;
};

}  // namespace pulsegate
