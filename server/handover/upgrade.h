#pragma once

#include "server/handover/gateway_pieces.h"
#include "server/limits/upgrade_state.h"

namespace pulsegate {

/// Has another program take over from this process, with all clients; docs/upgrade.md has the
/// steps. If it does, this process ends. Returns if this one goes on as before: the upgrade was
/// rehearsed or has failed. On the main thread. `arguments` are those of this process.
UpgradeOutcome upgrade(const GatewayPieces& gateway, const UpgradeOrder& order, char** arguments);

}  // namespace pulsegate
