#pragma once

#include "server/base/clock.h"
#include "server/limits/address_limits.h"
#include "server/limits/client_limits.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

// Passes bans, and the counts that lead to bans, to another process in an upgrade. It passes the
// administrator's bans too, although they are stored, because the store may have refused some.

/// Adds the gateway's bans and counts of addresses to the record.
void describe(AddressLimits& limits, GatewayRecord& record, Millis now);
/// Adds a shard's bans and counts of clients to the record; on the shard's thread.
void describe(ClientLimits& limits, GatewayRecord& record, Millis now);

void adopt(AddressLimits& limits, const GatewayRecord& record, Millis now);
void adopt(ClientLimits& limits, const ClientCountsRecord& record, Millis now);

/// The ban in the form of the limits. Its address, if it has one, is still to be parsed.
Ban ban_of(const BanRecord& record);

}  // namespace pulsegate
