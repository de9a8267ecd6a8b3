#pragma once

#include "server/session/state/exchanges.h"
#include "server/session/state/session.h"
#include "server/session/terms/reach.h"
#include "server/session/trace/tracer.h"

namespace pulsegate {

/// Tells traces of a message that waits for its receiver, or is dropped. What is sent they see as a
/// packet.
void trace_fate(Tracer& tracer, const Session& session, const Delivery& delivery, Fate fate);

}  // namespace pulsegate
