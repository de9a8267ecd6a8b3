#pragma once

#include "protocol/bytes.h"
#include "protocol/decode.h"
#include "server/session/terms/link.h"

namespace pulsegate {

class Connection;
class Logins;
class Tracer;

// Reports events of connections to the traces of their shard, which are by user and client.

/// Reports a whole packet that was received or is sent.
void trace_packet(Tracer& tracer, Logins& logins, const Connection& connection, Bytes packet,
                  Version version, Sender sender);
/// Reports the end of a connection without a session; a session has a history.
void trace_end(Tracer& tracer, const Connection& connection, const Ending& ending, Millis now);

}  // namespace pulsegate
