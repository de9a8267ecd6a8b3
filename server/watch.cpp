#include "server/watch.h"

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "server/server.h"
#include "server/start/process_log.h"
#include "server/start/service_manager.h"

namespace pulsegate {

namespace {

ReloadOutcome reload_server(ConfigReload& settings, Server& server) {
    auto outcome =
        reload_settings(settings, [&](const Config& config) { return server.reload(config); });
    if (outcome.faults.empty()) warn_of_open_files(server, settings.in_force().config());
    return outcome;
}

}  // namespace

ReloadOutcome reload_settings(ConfigReload& settings, const ConfigReload::Apply& apply) {
    auto outcome = settings.reload(apply);
    const Config& in_force = settings.in_force().config();
    if (outcome.faults.empty()) ProcessLog::use(in_force.log_level, in_force.log_format);
    log_outcome(outcome);
    return outcome;
}

void warn_of_open_files(const Server& server, const Config& config) {
    const auto wanted = config.admission.max_connections;
    if (wanted > server.admission().capacity())
        spdlog::warn(
            "max-connections: there is no room for {}; raise the limit on open files with "
            "ulimit -n, or LimitNOFILE in a systemd unit",
            wanted);
}

Watch::Watch() : watchdog_(service::watchdog_interval()) {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
        sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

void Watch::end() {
    if (store_failed_.exchange(true))
        return;  // a second signal would end the program that replaces this one
    ::kill(::getpid(), SIGTERM);
}

bool Watch::is_to_end(const Reload& reload) {
    service::tell_alive();
    links_.warn_daily();
    const timespec at_once{};
    const int signal = sigtimedwait(&signals_, nullptr, &at_once);
    if (signal == SIGHUP && reload) on_hangup(reload);
    stops_at_once_ = stops_at_once_ || signal == SIGINT;
    return signal == SIGTERM || signal == SIGINT;
}

bool Watch::ask_drain(const DrainTerms& terms) {
    const std::lock_guard lock(mutex_);
    if (asked_) return false;  // a second signal would end the drain
    asked_ = terms;
    ::kill(::getpid(), SIGTERM);
    return true;
}

void Watch::ask_reload(OnReload told) {
    const std::lock_guard lock(mutex_);
    reloads_.push_back(std::move(told));
    ::kill(::getpid(), SIGHUP);
}

void Watch::ask_upgrade(const UpgradeOrder& order) {
    const std::lock_guard lock(mutex_);
    upgrading_ = order;
    ::kill(::getpid(), SIGUSR2);
}

DrainTerms Watch::drain_terms(const DrainTerms& by_settings) {
    const std::lock_guard lock(mutex_);
    if (asked_) return *asked_;
    return stops_at_once_ ? DrainTerms{} : by_settings;
}

bool Watch::pause(Millis time, Server& server, ConfigReload& settings) {
    const Millis end = monotonic_now() + time;
    for (Millis left = time; left > 0; left = end - monotonic_now())
        if (next_signal(left, server, settings) != 0) return false;
    return true;
}

void Watch::wait(Server& server, ConfigReload& settings) {
    constexpr Millis a_minute = 60'000;
    for (;;) {
        switch (next_signal(a_minute, server, settings)) {
            case SIGTERM:
                if (!store_failed_) spdlog::info("SIGTERM: shutting down");
                return;
            case SIGINT: stops_at_once_ = true; return spdlog::info("SIGINT: shutting down");
            default: look_after(server);
        }
    }
}

/// Returns SIGTERM or SIGINT, or 0 if none has come in that time. It obeys other signals, and tells
/// the service manager that the event loops turn.
int Watch::next_signal(Millis time, Server& server, ConfigReload& settings) {
    const Millis end = monotonic_now() + time;
    for (Millis left = time; left > 0; left = end - monotonic_now()) {
        if (server.is_alive()) service::tell_alive();
        const Millis step = watchdog_ > 0 ? std::min(left, watchdog_ / 2) : left;
        const timespec rest{.tv_sec = step / 1000, .tv_nsec = step % 1000 * 1'000'000};
        switch (const int signal = sigtimedwait(&signals_, nullptr, &rest)) {
            case SIGTERM:
            case SIGINT: return signal;
            case SIGHUP: on_hangup(server, settings); break;
            case SIGUSR1: server.reopen_files(); break;
            case SIGUSR2: begin_upgrade(); break;
            default: break;
        }
    }
    return 0;
}

std::vector<Watch::OnReload> Watch::take_reloads() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reloads_, {});
}

void Watch::on_hangup(const Reload& reload) {
    spdlog::info("SIGHUP: reloading");
    // Those that come meanwhile may concern files that were read already; their signal waits.
    const auto asked = take_reloads();
    const ReloadOutcome outcome = reload();
    for (const OnReload& told : asked) told(outcome);
}

void Watch::on_hangup(Server& server, ConfigReload& settings) {
    on_hangup([&] {
        service::tell_reloading();
        auto outcome = reload_server(settings, server);
        service::tell_ready();
        return outcome;
    });
}

/// The signal alone starts nothing: only a request to the API on its Unix socket does.
void Watch::begin_upgrade() {
    std::unique_lock lock(mutex_);
    const auto order = std::exchange(upgrading_, std::nullopt);
    lock.unlock();
    if (order && upgrade_) upgrade_(*order);
}

/// Regular upkeep.
void Watch::look_after(Server& server) {
    give_back_memory(server.admission().open());
    server.look_at_certificates();
    links_.warn_daily();
}

/// When many connections have closed, the allocator would keep their memory. While it gives memory
/// back, no thread can allocate, so this is not done for a few connections.
void Watch::give_back_memory(std::size_t connections) {
    most_connections_ = std::max(most_connections_, connections);
    if (connections > most_connections_ / 4 * 3) return;
    most_connections_ = connections;
    malloc_trim(0);
}

}  // namespace pulsegate
