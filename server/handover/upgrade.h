#pragma once

#include "server/handover/gateway_pieces.h"
#include "server/limits/upgrade_state.h"

namespace pulsegate {

/// Lets another program take over from this process, with all clients; docs/upgrade.md has the
/// steps. If it succeeds, this process ends. It returns only if this process continues as before:
/// the upgrade was rehearsed or has failed. Call it on the main thread. `arguments` are the
/// arguments of this process.
UpgradeOutcome upgrade(const GatewayPieces& gateway, const UpgradeOrder& order, char** arguments);

}  // namespace pulsegate
