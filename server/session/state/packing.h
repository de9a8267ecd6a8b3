#pragma once

#include "server/session/state/outbox.h"
#include "server/session/state/session.h"
#include "server/session/users/dormant_record.h"

namespace pulsegate {

/// Does a record have room for everything in this disconnected session of its user's only device?
/// Its messages may have bodies in memory.
bool fits_record(const Session& session);

/// Its state as a record.
DormantRecord* pack(const Session& session);

/// Gives a new session the content of the record, without its subscription.
void unpack(const DormantRecord& record, Session& session, Outbox::Totals& totals);

}  // namespace pulsegate
