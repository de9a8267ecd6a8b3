#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/limits/drain.h"
#include "server/limits/upgrade_state.h"
#include "server/settings/config_reload.h"

namespace pulsegate {

/// When a certificate that the gateway shows, or the first of its chain, stops being valid.
struct CertificateEnd {
    std::string file;
    std::int64_t end;  ///< seconds since 1970
};

/// Reads the settings anew, as SIGHUP does, and calls back on another thread.
using AskReload = std::function<void(std::function<void(const ReloadOutcome&)>)>;

/// What the API may ask of the process, from its own thread.
struct AdminHost {
    /// Asks all clients to leave, and stops the gateway.
    std::function<void(const DrainTerms&)> drain{};
    AskReload reload{};
    /// Has another program take over. Returns why it can't; "": it begins.
    std::function<std::string(const UpgradeOrder&)> upgrade{};
    const UpgradeState* upgrades = nullptr;
    /// Of all certificates that are in use. Any thread.
    std::function<std::vector<CertificateEnd>()> certificate_ends{};
};

}  // namespace pulsegate
