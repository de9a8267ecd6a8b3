#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"
#include "server/base/log.h"
#include "server/base/log_format.h"
#include "server/cluster/membership.h"
#include "server/commands/backup_command.h"
#include "server/commands/ctl/ctl_command.h"
#include "server/commands/import_command.h"
#include "server/commands/passwd_command.h"
#include "server/commands/token_command.h"
#include "server/edge_server.h"
#include "server/handover/predecessor.h"
#include "server/handover/upgrade.h"
#include "server/limits/upgrade_state.h"
#include "server/server.h"
#include "server/settings/config_pages.h"
#include "server/settings/config_reload.h"
#include "server/start/check.h"
#include "server/start/early_end.h"
#include "server/start/process_log.h"
#include "server/start/service_manager.h"
#include "server/start/standby.h"
#include "server/watch.h"

namespace {

using namespace pulsegate;

/// The exit status if a stop could not close the store in order. A supervisor then starts the
/// gateway again, and the start finds out what is stored.
constexpr int not_stored = 3;

constexpr int wrong_usage = 2;

/// Prints the address of the demo's page.
void say_demo(const Server& server) {
    for (const auto& [url, open_to_anybody] : server.listening())
        if (!url.for_clients())
            return spdlog::info("demo: open {}/chat in two tabs of a browser", url.text());
}

void say_data(const Config& config) {
    if (config.cluster.redis) return;
    if (config.data.empty()) return spdlog::info("data: none; a restart forgets everything");
    spdlog::info("data: {}", std::filesystem::weakly_canonical(config.data).string());
}

/// Prints the default of the setting rooms, if it depends on other settings.
void say_rooms(const Config& config) {
    if (config.rooms_are_closed)
        return spdlog::info(
            "rooms are closed: only members may subscribe and publish to room/...; set rooms = "
            "open to admit everybody");
    if (!config.authenticator.access_file.empty())
        spdlog::info(
            "rooms are open to everybody whom the access-file lets in; set rooms = members to "
            "admit only members");
}

void say_ready(const Server& server, const Config& config) {
    std::string where;
    for (const auto& [url, open_to_anybody] : server.listening()) where += url.text() + ", ";
    spdlog::info("ready: {}{} shards, room for {} connections ({})", where, config.shards,
                 server.admission().capacity(), server.admission().bound());
    warn_of_open_files(server, config);
    for (const auto& [url, open_to_anybody] : server.listening())
        if (open_to_anybody) spdlog::warn("{}: clients are not authenticated", url.text());
    if (!config.rooms_are_stated) say_rooms(config);
    if (config.demo) say_demo(server);
}

/// A wrong clock would put the stored data, which is ordered by time, out of order for good.
void check_clock() {
    const WallMillis now = system_clock_now();
    if (now >= earliest_wall_time && now < latest_wall_time) return;
    throw std::runtime_error(
        fmt::format("the system's clock can't be right: it says {}; set it, by date, timedatectl "
                    "or NTP, and start again",
                    rfc3339(now)));
}

/// Set in the environment of a process that replaces one after its data went to another node.
constexpr const char* goes_on = "PULSEGATE_GOES_ON";

/// Joins the cluster. It waits for a Redis that still reads its data. If something else is wrong, a
/// first start fails at once. A node that has lost its data waits for Redis in any case, because
/// its settings were right before.
std::unique_ptr<Membership> join(const Config& config, const std::atomic<const Server*>& server) {
    constexpr auto pause = std::chrono::seconds(1);
    constexpr Millis between_lines = 60'000;
    Membership::Options options = membership_options(config);
    options.is_well = [&server] {
        const Server* const serving = server;
        return !serving || serving->is_alive();
    };
    Millis next_line = monotonic_now();
    for (;; std::this_thread::sleep_for(pause)) {
        service::tell_alive();
        try {
            return std::make_unique<Membership>(options);
        } catch (const RedisLoadingError& error) {
            if (monotonic_now() >= next_line) {
                spdlog::warn("waiting for Redis: {}", error.what());
                next_line = monotonic_now() + between_lines;
            }
        } catch (const RedisError& error) {
            if (!std::getenv(goes_on)) throw;
            spdlog::error("can't join the cluster: {}", error.what());
        }
    }
}

struct ForgetReloads {
    Watch& watch;
    ~ForgetReloads() { watch.forget_reloads(); }
};

/// Returns false if the process must end. Before that the clients of an edge leave, unless a second
/// signal arrives.
bool await_ownership(Membership& cluster, ConfigReload& settings, Watch& watch) {
    Standby standby(cluster, settings.in_force().config(),
                    {.drain = [&watch](auto& terms) { return watch.ask_drain(terms); },
                     .reload = [&watch](auto told) { watch.ask_reload(std::move(told)); }},
                    [&cluster](const Config& config) -> std::unique_ptr<StandbyService> {
                        if (!config.cluster.edge) return nullptr;
                        return std::make_unique<EdgeServer>(config, cluster);
                    });
    // Those to be told of a reload belong to `standby`, which an exception may end.
    const ForgetReloads forget_reloads{watch};
    const auto reload_here = [&] {
        return reload_settings(settings,
                               [&](const Config& config) { return standby.reload(config); });
    };
    bool drains = false;
    const bool is_owner = standby.await_ownership([&] {
        const bool must_end = watch.is_to_end(reload_here);
        if (drains) return must_end || standby.has_drained();
        if (!must_end) return false;
        drains = standby.begin_drain(watch.drain_terms(settings.in_force().config().drain));
        return !drains;
    });
    standby.stop();
    const bool serves = is_owner && !drains;
    if (!serves) cluster.leave();
    return serves;
}

/// The claim of a node that is about to serve. If the start fails, the node leaves the cluster.
/// Otherwise the supervisor would start it again, and it might claim the data before all others.
class Claim {
public:
    explicit Claim(Membership* cluster) : cluster_(cluster) {}
    ~Claim() {
        if (cluster_) cluster_->leave();
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    /// From now on, the store leaves when it is closed in order.
    void keep() { cluster_ = nullptr; }

private:
    Membership* cluster_;
};

/// Another node has the data now. This process must not tell its clients what it has in memory,
/// because that is out of date. So it executes the same program again, without connections, memory
/// and threads.
[[noreturn]] void begin_anew(char** arguments) {
    ::setenv(goes_on, "1", 1);
    ::execv("/proc/self/exe", arguments);
    say_at_once("can't restart: " + std::string(std::strerror(errno)));
    std::_Exit(not_stored);
}

/// A connection that another thread accepted just before `begin_anew` would stay open in this
/// process, and its client would wait for an answer.
void close_old_connections() {
    if (std::getenv(goes_on)) ::closefrom(STDERR_FILENO + 1);
}

/// Another node may have the data now, and this process was to end anyway.
[[noreturn]] void end_without_data() {
    say_at_once("another node may be serving the clients: exiting");
    std::_Exit(not_stored);
}

/// Stops a shard as soon as another node may serve its users; the process then starts again, or
/// ends if it `stops`.
std::function<void()> guard_shards(const Membership* cluster, Watch& watch,
                                   const std::atomic<bool>& stops) {
    if (!cluster) return {};
    return [cluster, &watch, &stops] {
        if (cluster->may_serve()) return;
        watch.end();
        if (stops) end_without_data();  // a stop would wait for this shard
        for (;;) ::pause();
    };
}

/// A second signal ends it.
void drain(Server& server, ConfigReload& settings, const DrainTerms& terms, Watch& watch) {
    constexpr Millis step = 100;
    server.announce_drain(terms);
    if (!watch.pause(terms.notice, server, settings) || terms.over == 0) return;
    server.begin_drain(terms.over);
    const Millis end = monotonic_now() + terms.over;
    while (monotonic_now() < end && server.admission().open() > 0)
        if (!watch.pause(step, server, settings)) return;
}

/// The reason why another process can't replace this one; "" if it can.
std::string objection_to_upgrade(const Config& config, bool ends_container) {
    if (config.cluster.redis)
        return "a node of a cluster is not upgraded this way: stop it, and the standby takes over";
    if (config.data.empty())
        return "without a data folder the sessions of clients that are away would be lost: name "
               "one "
               "with --data, or drain";
    if (ends_container) return "the container would end with this process: drain instead";
    return "";
}

/// The API calls it, on its thread. Returns the reason for a refusal; "" if the upgrade begins.
std::string ask_upgrade(const std::string& objection, UpgradeState& state,
                        const UpgradeOrder& order, Watch& watch) {
    if (!objection.empty()) return objection;
    if (!state.begin()) return "an upgrade is under way";
    watch.ask_upgrade(order);
    return "";
}

void log_outcome(const UpgradeOutcome& outcome) {
    if (outcome.end == UpgradeOutcome::End::failed)
        return spdlog::error("upgrade: {}; this process continues", outcome.why);
    if (outcome.end == UpgradeOutcome::End::rehearsed)
        return spdlog::info("upgrade rehearsed: {} clients would move, pause {} ms", outcome.moved,
                            outcome.pause);
    spdlog::info("upgraded from {} to {}: {} clients moved, {}, pause {} ms", outcome.from,
                 outcome.to, outcome.moved, text_of_left(outcome.left), outcome.pause);
}

/// Takes over from another process: everything but the start.
UpgradeOutcome take_over(Server& server, Predecessor& predecessor) {
    Go go = predecessor.take_clients(
        [&](UniqueFd socket, std::string_view state) {
            return server.adopt(std::move(socket), state);
        },
        [&](std::string_view state) { return server.adopt_history(state); },
        [&] { server.finish_adoption(); }, server.divides_rooms());
    server.count_pause_from(go.since);
    server.begin();
    predecessor.tell_serving();
    go.outcome.when = wall_now();
    go.outcome.pause = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::steady_clock::now() - go.since)
                           .count();
    log_outcome(go.outcome);
    return go.outcome;
}

int serve(ConfigReload& settings, char** arguments, Predecessor* predecessor) {
    check_clock();
    ::umask(::umask(0) | S_IWGRP | S_IRWXO);  // else SQLite's files were for everybody
    std::signal(SIGPIPE, SIG_IGN);            // if a reader closes our output, the write fails
    Watch watch;                              // before any thread starts
    const ProcessLog log(settings.in_force().config().log_level,
                         settings.in_force().config().log_format);
    std::atomic<const Server*> serving{nullptr};
    std::unique_ptr<Membership> cluster;
    std::optional<EarlyEnd> early_end(std::in_place);
    if (settings.in_force().config().cluster.redis) {
        service::refuse_passed_sockets();
        cluster = join(settings.in_force().config(), serving);
        watch.watch_links(cluster->view().certificates);
        early_end.reset();  // a standby obeys signals itself: its clients may have to leave
        if (!await_ownership(*cluster, settings, watch)) return 0;
        early_end.emplace();
        begin_calendar();
    }
    Claim claim(cluster.get());
    std::optional<service::KeptAlive> kept_alive(std::in_place);
    const Config& config = settings.in_force().config();  // until a reload
    UpgradeState upgrades;
    std::atomic<bool> stops{false};
    Server server(
        config,
        {.store_failed = [&watch] { watch.end(); },
         .api = {.drain = [&watch](auto& terms) { return watch.ask_drain(terms); },
                 .reload = [&watch](auto told) { watch.ask_reload(std::move(told)); },
                 .upgrade =
                     [&, objection = objection_to_upgrade(
                             config, !predecessor && service::ends_container())](
                         const UpgradeOrder& order) {
                         return ask_upgrade(objection, upgrades, order, watch);
                     },
                 .upgrades = &upgrades},
         .cluster = cluster.get(),
         .guard = guard_shards(cluster.get(), watch, stops),
         .inheritance = predecessor ? predecessor->await_inheritance(Server::promises(config))
                                    : Inheritance{}});
    early_end.reset();  // from now on, a stop has to be in order
    serving = &server;
    say_data(config);
    if (predecessor) upgrades.end(take_over(server, *predecessor));
    server.start();
    claim.keep();
    say_ready(server, config);
    kept_alive.reset();
    service::tell_ready();
    watch.upgrade_by([&](const UpgradeOrder& order) {
        spdlog::info("upgrade: starting {}",
                     order.program.empty() ? "this program" : order.program);
        const auto outcome = upgrade(server.pieces(), order, arguments);
        log_outcome(outcome);
        upgrades.end(outcome);
    });
    watch.wait(server, settings);
    if (cluster && watch.has_store_failed()) {
        spdlog::error("another node may be serving the clients: this node restarts");
        begin_anew(arguments);
    }
    stops = true;
    if (cluster && watch.has_store_failed()) end_without_data();  // a shard may have stopped before
    service::tell_stopping("stopping");
    const DrainTerms terms = watch.drain_terms(settings.in_force().config().drain);
    if (terms.is_wanted() && !watch.has_store_failed()) drain(server, settings, terms, watch);
    std::thread([&server, longest_stop = std::chrono::milliseconds(server.longest_stop())] {
        std::this_thread::sleep_for(longest_stop);
        say_at_once("some connections did not end in time: exiting");
        std::_Exit(server.is_stored() ? 0 : not_stored);
    }).detach();
    server.stop();
    watch.forget_reloads();
    serving = nullptr;
    spdlog::info("stopped");
    return server.is_stored() ? 0 : not_stored;
}

/// Prints all faults of the settings and of the files that they name. The exit status is 1 if there
/// are any.
int check(const ConfigReading& reading) {
    const ProcessLog log(spdlog::level::warn, LogFormat::text);
    auto faults = reading.faults();
    for (const std::string& fault : check_start(reading.config()))
        if (!reading.follows(fault)) faults.push_back(reading.located(fault));
    for (const std::string& fault : faults) fmt::print(stderr, "pulsegate: {}\n", fault);
    if (faults.empty()) fmt::print("pulsegate: the settings are right\n");
    return faults.empty() ? 0 : 1;
}

/// Reads the settings and serves. `predecessor` is null if there is none.
int start(int argc, char** argv, Predecessor* predecessor) {
    ConfigReload settings(argc, argv, ::environ);
    const ConfigReading& reading = settings.in_force();
    if (reading.is_check()) return check(reading);
    const auto faults = reading.faults();
    if (!faults.empty()) throw ConfigError(faults.front());
    if (reading.prints_config()) throw UsageRequested{settings_in_force(reading.settings())};
    try {
        if (predecessor)
            for (const std::string& fault : check_start(reading.config())) throw ConfigError(fault);
        return serve(settings, argv, predecessor);
    } catch (const ConfigError& error) {
        throw ConfigError(settings.in_force().located(error.what()));
    }
}

/// The answer to a command that has moved.
int say_moved() {
    fmt::print(stderr, "pulsegate: torture: pulsegate-loadgen kill does this now\n");
    return wrong_usage;
}

}  // namespace

int main(int argc, char** argv) {
    close_old_connections();
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (command == "passwd") return passwd_command(argc - 1, argv + 1);
    if (command == "backup") return backup_command(argc - 1, argv + 1);
    if (command == "ctl") return ctl_command(argc - 1, argv + 1);
    if (command == "import") return import_command(argc - 1, argv + 1);
    if (command == "token") return token_command(argc - 1, argv + 1);
    if (command == "torture") return say_moved();
    const auto predecessor = Predecessor::find();
    try {
        return start(argc, argv, predecessor.get());
    } catch (const UsageRequested& informed) {
        std::fputs(informed.text.c_str(), stdout);
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate: {}\n", error.what());
        if (predecessor) predecessor->refuse(error.what());
        return 1;
    }
}
