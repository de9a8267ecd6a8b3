#pragma once

#include <atomic>
#include <csignal>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "server/base/clock.h"
#include "server/limits/drain.h"
#include "server/limits/upgrade_state.h"
#include "server/settings/config_reload.h"

namespace pulsegate {

class Server;

/// What the main thread does while the shards serve: it waits for SIGTERM or SIGINT, reloads on
/// SIGHUP, and returns memory to the system. What the API asks of the process wakes it with a
/// signal, too. Construct it before any other thread: threads inherit the blocked signals, so that
/// only the main thread takes them.
class Watch {
public:
    Watch();

    /// From any thread: has `wait` return.
    void end();

    using Reload = std::function<ReloadOutcome()>;

    /// Has a signal come that ends the process? It obeys SIGHUP if there is anything to reload, and
    /// tells the service manager that the process is alive. For a node that does not serve yet.
    bool is_to_end(const Reload& reload = {});

    bool has_store_failed() const { return store_failed_; }

    /// From any thread: has `wait` return, and the process drain on these terms.
    void ask_drain(const DrainTerms& terms);
    using OnReload = std::function<void(const ReloadOutcome&)>;
    /// From any thread: reloads, and then calls `told`.
    void ask_reload(OnReload told);
    /// Those who have asked can't be told any more.
    void forget_reloads() { take_reloads(); }
    using Upgrade = std::function<void(const UpgradeOrder&)>;
    /// What `ask_upgrade` is answered with, on the main thread. Before `wait`.
    void upgrade_by(Upgrade upgrade) { upgrade_ = std::move(upgrade); }
    /// From any thread: has another program take over.
    void ask_upgrade(const UpgradeOrder& order);

    /// On which terms the process is to be drained before it stops.
    DrainTerms drain_terms(const DrainTerms& by_settings);
    /// False: a signal has come meanwhile that ends the process at once.
    bool pause(Millis time, Server& server, ConfigReload& settings);

    /// Returns on SIGTERM or SIGINT, and when the store has failed.
    void wait(Server& server, ConfigReload& settings);

private:
    int next_signal(Millis time, Server& server, ConfigReload& settings);
    std::vector<OnReload> take_reloads();
    void obey_hangup(const Reload& reload);
    void obey_hangup(Server& server, ConfigReload& settings);
    void begin_upgrade();
    void look_after(Server& server);
    void give_back_memory(std::size_t connections);

    sigset_t signals_;
    std::atomic<bool> store_failed_{false};
    bool stops_at_once_ = false;
    const Millis watchdog_;
    Upgrade upgrade_{};
    std::mutex mutex_;
    std::optional<DrainTerms> asked_;        ///< by the API
    std::vector<OnReload> reloads_;          ///< as well
    std::optional<UpgradeOrder> upgrading_;  ///< as well
    std::size_t most_connections_ = 0;
};

/// Applies what can change while the process runs, and says what needs a restart.
ReloadOutcome reload_settings(ConfigReload& settings, const ConfigReload::Apply& apply);

/// Says so if max-connections is more than the limit on open files allows.
void warn_of_open_files(const Server& server, const Config& config);

}  // namespace pulsegate
