#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/membership.h"
#include "server/http/standby_admin.h"
#include "server/settings/config.h"

namespace pulsegate {

/// A node of the cluster that the settings name.
Membership::Options membership_options(const Config& config);

/// A node that waits until it owns the data of its cluster. Meanwhile no client is let in; the
/// admin listeners answer probes and what the cluster does. Used from the main thread only.
class Standby {
public:
    /// `cluster` must outlive it.
    Standby(Membership& cluster, const Config& config, AskReload ask_reload)
        : cluster_(cluster), config_(config), ask_reload_(std::move(ask_reload)) {}

    /// False when `give_up` says so, which is asked some times a second. Throws ConfigError.
    bool await_ownership(const std::function<bool()>& give_up);

    /// Puts the live settings to use; see ConfigReload::Apply. It checks all that the settings
    /// name, since it is to serve by them.
    std::vector<std::string> reload(const Config& config);

    /// Answers nobody any more, and asks for no reload.
    void stop() {
        if (admin_) admin_->stop();
    }

private:
    void listen();
    void listen_locally();

    Membership& cluster_;
    Config config_;
    const AskReload ask_reload_;
    std::optional<StandbyAdmin> admin_{};
};

}  // namespace pulsegate
