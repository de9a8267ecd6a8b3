#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/session/terms/cause.h"

namespace pulsegate {

class Session;

/// Why a connection ends: the cause for presence, the reason code for an MQTT 5.0 DISCONNECT, and
/// text for the log, "" if it has been logged. `Reason::success` sends no DISCONNECT.
struct Ending {
    Ending() = default;
    Ending(Cause cause, Reason reason, const char* why, bool is_ours = false)
        : cause(cause), reason(reason), is_ours(is_ours), why(why) {}

    Cause cause{};
    Reason reason{};
    bool is_ours = false;  ///< the gateway is in trouble, and the client is not at fault
    const char* why = "";
};

/// A connection as its session sees it. No function calls back into the session: bytes are sent,
/// and endings take effect, at the end of the round.
class Link {
public:
    /// Sends whole packets. Exceeding the output budget ends the connection.
    virtual void send(std::string_view packets) = 0;

    /// Ends the connection after the bytes sent before have been written, as far as the peer
    /// accepts them.
    virtual void end(const Ending& ending) = 0;

    /// Bytes that wait for the socket.
    virtual std::size_t backlog() const = 0;

    /// Asks for one call of `Broker::drained` when the backlog has become empty.
    virtual void notify_when_drained() = 0;

    /// The CONNACK is sent, for which the connection has held back other packets.
    virtual void connack_sent() = 0;

    /// Has the connection failed, so that it is about to end?
    virtual bool is_lost() const = 0;

    /// Is the node with the client's connection gone or out of reach? Then the client may come back
    /// within its limit of silence.
    virtual bool is_cut_off() const { return false; }
    /// Is the node gone for good, and not only out of reach for a moment?
    virtual bool has_lost_node() const { return false; }

    /// Was the connection told to end, so that it will end soon?
    virtual bool is_ending() const = 0;

    virtual Millis last_packet() const = 0;

    /// Address and port of the client, for the log.
    virtual std::string peer() const = 0;
    /// The client's address without port; "" if the client is gone.
    virtual std::string address() const = 0;
    /// The same in the form that the limits by address use, also when the client is gone.
    virtual const Address& origin_address() const = 0;
    /// The listener of the client's connection, as a URL.
    virtual std::string_view listener() const = 0;

    /// Sets the silence, in milliseconds, after which the connection times out.
    virtual void set_limit(Millis limit) = 0;
    virtual Millis limit() const = 0;

    /// Sets the client's Maximum Packet Size, in bytes; 0: no limit.
    virtual void set_largest_packet(std::uint32_t size) = 0;

    Session* session = nullptr;  ///< null before login and after the end

protected:
    ~Link() = default;
};

}  // namespace pulsegate
