#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/packet.h"
#include "server/clock.h"
#include "server/session/presence.h"

namespace pulsegate {

class Session;

/// Why a connection ends: the cause for presence, the code for an MQTT 5.0 DISCONNECT, and words
/// for the log, "" if they are there already. `Reason::success` sends no DISCONNECT.
struct Ending {
    Cause cause{};
    Reason reason{};
    const char* why = "";
};

/// The session's end of a connection. Nothing it does calls back into the session: bytes leave and
/// endings take effect at the end of the turn.
class Link {
public:
    /// Sends whole packets. What exceeds the output budget ends the connection.
    virtual void send(std::string_view packets) = 0;

    /// Ends the connection once what was sent before has been written, as far as the peer takes it.
    virtual void end(const Ending& ending) = 0;

    /// Bytes sent that the socket has not taken yet.
    virtual std::size_t backlog() const = 0;

    /// Asks for one call of `Broker::drained` when the backlog has become empty.
    virtual void tell_when_drained() = 0;

    /// Has it broken, so that its end is near?
    virtual bool broken() const = 0;

    virtual Millis last_packet() const = 0;

    /// Address and port of the client, for the log.
    virtual std::string peer() const = 0;

    /// The silence, in milliseconds, after which the connection is due.
    virtual void set_limit(Millis limit) = 0;

    /// The largest packet that the client takes, in bytes; 0: any.
    virtual void set_largest_packet(std::uint32_t size) = 0;

    Session* session = nullptr;  ///< who speaks through it; null before login and after the end

protected:
    ~Link() = default;
};

}  // namespace pulsegate
