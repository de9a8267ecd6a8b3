#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/limits/drain.h"
#include "server/limits/upgrade_state.h"
#include "server/settings/config_reload.h"

namespace pulsegate {

/// The expiry of one of the gateway's certificates, or of the certificate in its chain that expires
/// first.
struct CertificateEnd {
    std::string file;
    std::int64_t end;  ///< seconds since 1970
    std::string setting = "tls-cert";
};

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
