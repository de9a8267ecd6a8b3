#pragma once

#include "server/session/state/outbox.h"
#include "server/session/state/session.h"
#include "server/session/users/presence_entry.h"

namespace pulsegate {

/// Can a record hold all of this disconnected session, the only device of its user? Its messages
/// may have bodies in memory.
bool fits_record(const Session& session);

/// Makes a record of the session's state.
PackedRecord* pack(const Session& session);

/// Gives a new session the content of the record, without its subscription.
void unpack(const PackedRecord& record, Session& session, Outbox::Totals& totals);

}  // namespace pulsegate
