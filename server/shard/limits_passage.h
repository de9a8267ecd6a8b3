#pragma once

#include "server/base/clock.h"
#include "server/limits/address_limits.h"
#include "server/limits/client_limits.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

// How bans, and the counts that lead to them, pass to another process in an upgrade. The store has
// the bans by the administrator as well, unless it could not take them: all of them pass.

/// Adds what the gateway knows of addresses.
void describe(AddressLimits& limits, GatewayRecord& record, Millis now);
/// Adds what a shard knows of clients; on its thread.
void describe(ClientLimits& limits, GatewayRecord& record, Millis now);

void adopt(AddressLimits& limits, const GatewayRecord& record, Millis now);
void adopt(ClientLimits& limits, const ClientCountsRecord& record, Millis now);

/// As the limits have it. Its address, if it has one, is still to be read.
Ban ban_of(const BanRecord& record);

}  // namespace pulsegate
