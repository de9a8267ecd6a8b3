#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/membership.h"
#include "server/http/standby_admin.h"
#include "server/settings/config.h"
#include "server/start/standby_service.h"

namespace pulsegate {

/// The options for a node of the cluster in the settings.
Membership::Options membership_options(const Config& config);

/// A node that waits until it owns the data of its cluster. Meanwhile the admin listeners answer
/// probes and report the state of the cluster, and a StandbyService may serve clients. Used from
/// the main thread only.
class Standby {
public:
    /// Begins to serve clients; null: they can't log in here. Throws ConfigError.
    using MakeService = std::function<std::unique_ptr<StandbyService>(const Config& config)>;

    /// `cluster` must outlive it.
    Standby(Membership& cluster, const Config& config, AdminHost host, MakeService make_service)
        : cluster_(cluster),
          config_(config),
          host_(std::move(host)),
          make_service_(std::move(make_service)) {}
    ~Standby() { stop(); }

    /// Returns false when `give_up`, which it calls several times a second, returns true. Throws
    /// ConfigError.
    bool await_ownership(const std::function<bool()>& give_up);

    /// Applies the live settings; see ConfigReload::Apply. It checks all files that the settings
    /// name, because it may have to serve with them.
    std::vector<std::string> reload(const Config& config);

    /// Asks the clients of this node to leave; see StandbyService.
    bool begin_drain(const DrainTerms& terms) { return service_ && service_->begin_drain(terms); }
    bool has_drained() const { return service_->has_drained(); }

    /// Answers no more requests, asks for no reload, and disconnects clients.
    void stop() {
        if (admin_) admin_->stop();
        service_.reset();
    }

private:
    void listen();
    void listen_locally();
    void serve();

    Membership& cluster_;
    Config config_;
    const AdminHost host_;
    const MakeService make_service_;
    std::unique_ptr<StandbyService> service_{};  // the API asks it
    std::optional<StandbyAdmin> admin_{};
};

}  // namespace pulsegate
