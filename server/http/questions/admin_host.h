#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/base/certificate_end.h"
#include "server/limits/drain.h"
#include "server/limits/upgrade_state.h"
#include "server/settings/config_reload.h"

namespace pulsegate {

/// Reads the settings again, as SIGHUP does, and calls back on another thread.
using AskReload = std::function<void(std::function<void(const ReloadOutcome&)>)>;

/// The API's links to the process, for use on the API's thread.
struct AdminHost {
    /// Asks all clients to leave, and stops the gateway. Returns false if it was asked before.
    std::function<bool(const DrainTerms&)> drain{};
    AskReload reload{};
    /// Makes another program take over. Returns the reason for a refusal; "" if the upgrade begins.
    std::function<std::string(const UpgradeOrder&)> upgrade{};
    const UpgradeState* upgrades = nullptr;
    /// Expiry of all certificates in use. Any thread.
    std::function<std::vector<CertificateEnd>()> certificate_ends{};
};

}  // namespace pulsegate
