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

/// The options for a node of the cluster in the settings.
Membership::Options membership_options(const Config& config);

/// A node that waits until it owns the data of its cluster. Meanwhile no client can log in; the
/// admin listeners answer probes and report the state of the cluster. Used from the main thread
/// only.
class Standby {
public:
    /// `cluster` must outlive it.
    Standby(Membership& cluster, const Config& config, AskReload ask_reload)
        : cluster_(cluster), config_(config), ask_reload_(std::move(ask_reload)) {}

    /// Returns false when `give_up`, which it calls several times a second, returns true. Throws
    /// ConfigError.
    bool await_ownership(const std::function<bool()>& give_up);

    /// Applies the live settings; see ConfigReload::Apply. It checks all files that the settings
    /// name, because it may have to serve with them.
    std::vector<std::string> reload(const Config& config);

    /// Answers no more requests, and asks for no reload.
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
