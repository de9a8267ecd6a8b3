#pragma once

#include <atomic>
#include <csignal>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/limits/drain.h"
#include "server/limits/upgrade_state.h"
#include "server/settings/config_reload.h"
#include "server/start/certificate_watch.h"

namespace pulsegate {

class Server;

/// The main thread's work while the shards serve: it waits for SIGTERM or SIGINT, reloads on
/// SIGHUP, and returns memory to the system. The API's requests to the process wake it with a
/// signal, too. Construct it before any other thread starts: threads inherit the blocked signals,
/// so only the main thread takes them. During a start, EarlyEnd takes SIGTERM and SIGINT.
class Watch {
public:
    Watch();

    /// Makes `wait` return. Any thread.
    void end();

    using Reload = std::function<ReloadOutcome()>;

    /// True if a signal has arrived that ends the process. It obeys SIGHUP if there is anything to
    /// reload, and tells the service manager that the process is alive. For a node that does not
    /// serve yet.
    bool is_to_end(const Reload& reload = {});

    /// Warns of certificates of this node's link that expire soon: now, and then once a day.
    void watch_links(std::vector<CertificateEnd> ends) { links_.use(std::move(ends)); }

    bool has_store_failed() const { return store_failed_; }

    /// Makes `wait` return, and the process drain on these terms. False if it was asked before. Any
    /// thread.
    bool ask_drain(const DrainTerms& terms);
    using OnReload = std::function<void(const ReloadOutcome&)>;
    /// Makes the main thread reload and then call `told`. Any thread.
    void ask_reload(OnReload told);
    /// Drops the requests to reload: their callers can't be told any more.
    void forget_reloads() { take_reloads(); }
    using Upgrade = std::function<void(const UpgradeOrder&)>;
    /// Sets the function that `ask_upgrade` makes the main thread call. Before `wait`.
    void upgrade_by(Upgrade upgrade) { upgrade_ = std::move(upgrade); }
    /// Makes another program take over. Any thread.
    void ask_upgrade(const UpgradeOrder& order);

    /// The terms for draining the process before it stops.
    DrainTerms drain_terms(const DrainTerms& by_settings);
    /// Returns false if a signal has arrived that ends the process at once.
    bool pause(Millis time, Server& server, ConfigReload& settings);

    /// Returns on SIGTERM or SIGINT, or when the store has failed.
    void wait(Server& server, ConfigReload& settings);

private:
    int next_signal(Millis time, Server& server, ConfigReload& settings);
    std::vector<OnReload> take_reloads();
    void on_hangup(const Reload& reload);
    void on_hangup(Server& server, ConfigReload& settings);
    void begin_upgrade();
    void look_after(Server& server);
    void give_back_memory(std::size_t connections);

    sigset_t signals_;
    std::atomic<bool> store_failed_{false};
    bool stops_at_once_ = false;
    const Millis watchdog_;
    CertificateWatch links_;
    Upgrade upgrade_{};
    std::mutex mutex_;
    std::optional<DrainTerms> asked_;        ///< over the API
    std::vector<OnReload> reloads_;          ///< as well
    std::optional<UpgradeOrder> upgrading_;  ///< as well
    std::size_t most_connections_ = 0;
};

/// Applies what can change while the process runs, and says what needs a restart.
ReloadOutcome reload_settings(ConfigReload& settings, const ConfigReload::Apply& apply);

/// Says so if max-connections is more than the limit on open files allows.
void warn_of_open_files(const Server& server, const Config& config);

}  // namespace pulsegate
