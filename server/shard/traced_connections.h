#pragma once

#include "protocol/bytes.h"
#include "protocol/decode.h"
#include "server/session/terms/link.h"

namespace pulsegate {

class Connection;
class Logins;
class Tracer;

// What connections tell the traces of their shard, which know them by users and clients.

/// A whole packet that has come or goes out.
void trace_packet(Tracer& tracer, Logins& logins, const Connection& connection, Bytes packet,
                  Version version, Sender sender);
/// The end of a connection that has no session: those with one have a history.
void trace_end(Tracer& tracer, const Connection& connection, const Ending& ending, Millis now);

}  // namespace pulsegate
