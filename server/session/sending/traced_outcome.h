#pragma once

#include "server/session/state/exchanges.h"
#include "server/session/state/session.h"
#include "server/session/terms/reach.h"
#include "server/session/trace/tracer.h"

namespace pulsegate {

/// Reports to traces that a message waits for its receiver or is dropped. Traces see sent messages
/// as packets.
void trace_outcome(Tracer& tracer, const Session& session, const Delivery& delivery,
                   DeliveryOutcome outcome);

}  // namespace pulsegate
