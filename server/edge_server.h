#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/cluster/cluster_view.h"
#include "server/server.h"
#include "server/settings/config.h"
#include "server/start/standby_service.h"

namespace pulsegate {

class Membership;

/// Serves clients as an edge while the node stands by: it keeps their connections, and forwards
/// their packets to the node that owns the data. Used from the main thread only.
class EdgeServer final : public StandbyService {
public:
    /// Binds every listener for clients. Throws ConfigError. `cluster` must outlive it.
    EdgeServer(const Config& config, Membership& cluster);
    ~EdgeServer() override;

    void look() override;
    StandbyState state() override;
    bool begin_drain(const DrainTerms& terms) override;
    bool has_drained() const override;
    std::vector<std::string> reload(const Config& config) override;

private:
    struct Dialing {
        std::atomic<bool> is_under_way = false;
        std::string obstacle{};  ///< why there was no link the last time; of the link's thread
        /// The owner has answered, but it does not serve yet, or stops.
        std::atomic<bool> is_told_to_wait = false;
    };

    /// The owner's heartbeats since this node was last in contact with it.
    struct Unreached {
        std::string incarnation{};
        std::uint64_t beats = 0;  ///< the counter when it was last seen
        unsigned rises = 0;       ///< how often it was seen to rise
    };

    struct Drain {
        std::chrono::steady_clock::time_point leave_at{};  ///< when its clients begin to leave
        std::chrono::steady_clock::time_point ends{};
        Millis over = 0;
        bool leaves = false;
    };

    void look_after_drain();
    void look_after_clients(const ClusterView::Node& owner);

    Membership& cluster_;
    Server server_;
    std::optional<Drain> drain_{};
    std::string home_{};  ///< incarnation of the last node that it has dialed
    std::chrono::steady_clock::time_point next_dial_{};
    Unreached unreached_{};
    std::shared_ptr<Dialing> dialing_ = std::make_shared<Dialing>();
};

}  // namespace pulsegate
