#include <fmt/format.h>
#include <linux/close_range.h>
#include <malloc.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
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

#include "server/base/calendar.h"
#include "server/base/clock.h"
#include "server/base/files/line_writer.h"
#include "server/base/log.h"
#include "server/base/log_format.h"
#include "server/cluster/membership.h"
#include "server/commands/backup_command.h"
#include "server/commands/ctl/ctl_command.h"
#include "server/commands/import_command.h"
#include "server/commands/passwd_command.h"
#include "server/commands/token_command.h"
#include "server/server.h"
#include "server/settings/config_pages.h"
#include "server/settings/config_reload.h"
#include "server/start/check.h"
#include "server/start/service_manager.h"
#include "server/start/standby.h"

namespace {

using namespace pulsegate;

/// Stopping must take less time than service managers allow for it (Docker: 10 s).
constexpr auto longest_stop = std::chrono::seconds(9);

/// The exit status if a stop could not close the store in order. A supervisor then starts the
/// gateway again, and the start finds out what is stored.
constexpr int not_stored = 3;

constexpr int wrong_usage = 2;

/// Past the log. If the reader of standard error is blocked, nothing is said: it would hold up the
/// exit for good.
void say_at_once(const std::string& text) {
    pollfd event{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&event, 1, 0) == 1) fmt::print(stderr, "pulsegate: {}\n", text);
}

/// Writes the log through a LineWriter, because the reader of standard error may block.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        writer_.write({line.data(), line.size()});
    }
    void flush_() override {}

    LineWriter writer_{STDERR_FILENO,
                       [](const std::string& trouble) { say_at_once("log: " + trouble); }};
};

/// The log, to standard error: standard output belongs to `--events -`.
class Log {
public:
    explicit Log(spdlog::level::level_enum level, LogFormat format) {
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("pulsegate", std::make_shared<LogSink>()));
        use(level, format);
    }
    ~Log() { spdlog::shutdown(); }

    static void use(spdlog::level::level_enum level, LogFormat format) {
        spdlog::set_level(level);
        set_log_has_fields(format == LogFormat::json);
        spdlog::set_formatter(log_formatter(format));
    }
};

/// Where the demo's page is.
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

void warn_of_open_files(const Server& server, const Config& config) {
    const auto wanted = config.admission.max_connections;
    if (wanted > server.admission().capacity())
        spdlog::warn(
            "max-connections: there is no room for {}; raise the limit on open files with "
            "ulimit -n, or LimitNOFILE in a systemd unit",
            wanted);
}

void say_ready(const Server& server, const Config& config) {
    std::string where;
    for (const auto& [url, open_to_anybody] : server.listening()) where += url.text() + ", ";
    spdlog::info("ready: {}{} shards, room for {} connections ({})", where, config.shards,
                 server.admission().capacity(), server.admission().bound());
    warn_of_open_files(server, config);
    for (const auto& [url, open_to_anybody] : server.listening())
        if (open_to_anybody) spdlog::warn("{}: clients are not authenticated", url.text());
    if (config.rooms_are_closed && !config.rooms_are_stated)
        spdlog::info(
            "rooms: only members read room/... and publish there; --rooms open if all may");
    if (config.demo) say_demo(server);
}

/// Applies what can change while the process runs, and says what needs a restart.
ReloadOutcome reload(ConfigReload& settings, const ConfigReload::Apply& apply) {
    auto outcome = settings.reload(apply);
    const Config& in_force = settings.in_force().config();
    if (outcome.faults.empty()) Log::use(in_force.log_level, in_force.log_format);
    log_outcome(outcome);
    return outcome;
}

ReloadOutcome reload(ConfigReload& settings, Server& server) {
    auto outcome = reload(settings, [&](const Config& config) { return server.reload(config); });
    if (outcome.faults.empty()) warn_of_open_files(server, settings.in_force().config());
    return outcome;
}

/// What the main thread does while the shards serve: it waits for SIGTERM or SIGINT, reloads on
/// SIGHUP, and returns memory to the system. Construct it before any other thread: threads inherit
/// the blocked signals, so that only the main thread takes them.
class Watch {
public:
    Watch() {
        sigemptyset(&signals_);
        for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals_, signal);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    }

    /// From any thread: has `wait` return.
    void end() {
        if (store_failed_.exchange(true)) return;  // a second signal would end who goes on for us
        ::kill(::getpid(), SIGTERM);
    }

    using Reload = std::function<ReloadOutcome()>;

    /// Has a signal come that ends the process? It obeys SIGHUP if there is anything to reload. The
    /// service manager is not told of that: for it, a node that stands by has not started yet.
    bool is_to_end(const Reload& reload = {}) {
        const timespec at_once{};
        const int signal = sigtimedwait(&signals_, nullptr, &at_once);
        if (signal == SIGHUP && reload) obey_hangup(reload);
        return signal == SIGTERM || signal == SIGINT;
    }

    bool has_store_failed() const { return store_failed_; }

    /// From any thread: has `wait` return, and the process drain on these terms.
    void ask_drain(const DrainTerms& terms) {
        const std::lock_guard lock(mutex_);
        asked_ = terms;
        ::kill(::getpid(), SIGTERM);
    }
    using OnReload = std::function<void(const ReloadOutcome&)>;
    /// From any thread: reloads, and then calls `told`.
    void ask_reload(OnReload told) {
        const std::lock_guard lock(mutex_);
        reloads_.push_back(std::move(told));
        ::kill(::getpid(), SIGHUP);
    }
    /// Those who have asked can't be told any more.
    void forget_reloads() { take_reloads(); }
    /// On which terms the process is to be drained before it stops.
    DrainTerms drain_terms(const DrainTerms& by_settings) {
        const std::lock_guard lock(mutex_);
        if (asked_) return *asked_;
        return stops_at_once_ ? DrainTerms{} : by_settings;
    }
    /// False: a signal has come meanwhile that ends the process at once.
    bool pause(Millis time, Server& server, ConfigReload& settings) {
        const Millis end = monotonic_now() + time;
        for (Millis left = time; left > 0; left = end - monotonic_now())
            if (next_signal(left, server, settings) != 0) return false;
        return true;
    }

    /// Returns on SIGTERM or SIGINT, and when the store has failed.
    void wait(Server& server, ConfigReload& settings) {
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

private:
    /// SIGTERM or SIGINT, or 0: none has come in that time. It obeys other signals, and tells the
    /// service manager that the event loops turn.
    int next_signal(Millis time, Server& server, ConfigReload& settings) {
        const Millis end = monotonic_now() + time;
        for (Millis left = time; left > 0; left = end - monotonic_now()) {
            if (server.is_alive()) service::tell_alive();
            const Millis step = watchdog_ > 0 ? std::min(left, watchdog_ / 2) : left;
            const timespec rest{.tv_sec = step / 1000, .tv_nsec = step % 1000 * 1'000'000};
            switch (const int signal = sigtimedwait(&signals_, nullptr, &rest)) {
                case SIGTERM:
                case SIGINT: return signal;
                case SIGHUP: obey_hangup(server, settings); break;
                case SIGUSR1: server.reopen_files(); break;
                default: break;
            }
        }
        return 0;
    }

    std::vector<OnReload> take_reloads() {
        const std::lock_guard lock(mutex_);
        return std::exchange(reloads_, {});
    }

    void obey_hangup(const Reload& reload) {
        spdlog::info("SIGHUP: reloading");
        const ReloadOutcome outcome = reload();
        for (const OnReload& told : take_reloads()) told(outcome);
    }
    void obey_hangup(Server& server, ConfigReload& settings) {
        obey_hangup([&] {
            service::tell_reloading();
            auto outcome = reload(settings, server);
            service::tell_ready();
            return outcome;
        });
    }

    /// What is to be done once in a while.
    void look_after(Server& server) {
        give_back_memory(server.admission().open());
        server.look_at_certificates();
    }

    /// When many connections have closed, the allocator would keep their memory. While it
    /// is given back, nobody gets any, so it is not done for a few.
    void give_back_memory(std::size_t connections) {
        most_connections_ = std::max(most_connections_, connections);
        if (connections > most_connections_ / 4 * 3) return;
        most_connections_ = connections;
        malloc_trim(0);
    }

    sigset_t signals_;
    std::atomic<bool> store_failed_{false};
    bool stops_at_once_ = false;
    const Millis watchdog_ = service::watchdog_interval();
    std::mutex mutex_;
    std::optional<DrainTerms> asked_;  ///< by the API
    std::vector<OnReload> reloads_;    ///< as well
    std::size_t most_connections_ = 0;
};

/// What is stored is in order by the clock, and would be out of order for good.
void check_clock() {
    const WallMillis now = system_clock_now();
    if (now >= earliest_wall_time && now < latest_wall_time) return;
    throw std::runtime_error(
        fmt::format("the system's clock can't be right: it says {}; set it, by date, timedatectl "
                    "or NTP, and start again",
                    rfc3339(now)));
}

/// In the environment of a process that goes on for one that lost its data to another node.
constexpr const char* goes_on = "PULSEGATE_GOES_ON";

/// Joins the cluster. A node that has lost its data waits for Redis, since its settings were right
/// once; what is wrong at a first start is told at once. Null: the process is to end.
std::unique_ptr<Membership> join(const Config& config, const std::atomic<const Server*>& server,
                                 Watch& watch) {
    constexpr auto pause = std::chrono::seconds(1);
    Membership::Options options = membership_options(config);
    options.is_well = [&server] {
        const Server* const serving = server;
        return !serving || serving->is_alive();
    };
    while (!watch.is_to_end()) {
        try {
            return std::make_unique<Membership>(options);
        } catch (const RedisError& error) {
            if (!std::getenv(goes_on)) throw;
            spdlog::error("can't join the cluster: {}", error.what());
        }
        std::this_thread::sleep_for(pause);
    }
    return nullptr;
}

/// False: the process is to end.
bool await_ownership(Membership& cluster, ConfigReload& settings, Watch& watch) {
    Standby standby(cluster, settings.in_force().config(),
                    [&watch](auto told) { watch.ask_reload(std::move(told)); });
    const auto reload_here = [&] {
        return reload(settings, [&](const Config& config) { return standby.reload(config); });
    };
    const bool is_owner = standby.await_ownership([&] { return watch.is_to_end(reload_here); });
    standby.stop();
    watch.forget_reloads();
    if (!is_owner) cluster.leave();
    return is_owner;
}

/// Another node has the data now. What this process has in memory is old, and what its clients are
/// told must not be: so the same program begins anew in its place, without connections, memory and
/// threads.
[[noreturn]] void begin_anew(char** arguments) {
    ::setenv(goes_on, "1", 1);
    ::close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    ::execv("/proc/self/exe", arguments);
    say_at_once("can't begin anew: " + std::string(std::strerror(errno)));
    std::_Exit(not_stored);
}

/// Keeps a shard from doing anything when it is not sure any more that no other node serves its
/// users; the process begins anew.
std::function<void()> guard_rounds(const Membership* cluster, Watch& watch) {
    if (!cluster) return {};
    return [cluster, &watch] {
        if (cluster->may_serve()) return;
        watch.end();
        for (;;) ::pause();
    };
}

/// A second signal ends it. It asks no shard how many clients it has: that one may be kept from
/// doing anything, see `guard_rounds`.
void drain(Server& server, ConfigReload& settings, const DrainTerms& terms, Watch& watch) {
    constexpr Millis step = 100;
    spdlog::info("draining: not ready for {} s, then {} clients are asked to leave within {} s",
                 terms.notice / 1000, server.admission().open(), terms.over / 1000);
    server.announce_drain(terms.notice);
    if (!watch.pause(terms.notice, server, settings) || terms.over == 0) return;
    server.begin_drain(terms.over);
    const Millis end = monotonic_now() + terms.over;
    while (monotonic_now() < end && server.admission().open() > 0)
        if (!watch.pause(step, server, settings)) return;
}

int serve(ConfigReload& settings, char** arguments) {
    check_clock();
    ::umask(::umask(0) | S_IWGRP | S_IRWXO);  // SQLite's files are for everybody else
    std::signal(SIGPIPE, SIG_IGN);  // a reader that closes our output is an error of a write
    Watch watch;                    // before any thread starts
    const Log log(settings.in_force().config().log_level, settings.in_force().config().log_format);
    std::atomic<const Server*> serving{nullptr};
    std::unique_ptr<Membership> cluster;
    if (settings.in_force().config().cluster.redis) {
        cluster = join(settings.in_force().config(), serving, watch);
        if (!cluster || !await_ownership(*cluster, settings, watch)) return 0;
        begin_calendar();
    }
    const Config& config = settings.in_force().config();  // until a reload
    Server server(config,
                  {.store_failed = [&watch] { watch.end(); },
                   .api = {.drain = [&watch](auto& terms) { watch.ask_drain(terms); },
                           .reload = [&watch](auto told) { watch.ask_reload(std::move(told)); }},
                   .cluster = cluster.get(),
                   .before_each_round = guard_rounds(cluster.get(), watch)});
    serving = &server;
    say_data(config);
    server.start();
    say_ready(server, config);
    service::tell_ready();
    watch.wait(server, settings);
    if (cluster && watch.has_store_failed()) {
        spdlog::error("another node may serve the clients by now: this one begins anew");
        begin_anew(arguments);
    }
    service::tell_stopping("stopping");
    const DrainTerms terms = watch.drain_terms(settings.in_force().config().drain);
    if (terms.is_wanted() && !watch.has_store_failed()) drain(server, settings, terms, watch);
    std::thread([&server] {
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

/// All faults of the settings, and of what they name. The exit status is 1 if there are any.
int check(const ConfigReading& reading) {
    const Log log(spdlog::level::warn, LogFormat::text);
    auto faults = reading.faults();
    for (const std::string& fault : check_start(reading.config()))
        if (!reading.follows(fault)) faults.push_back(reading.located(fault));
    for (const std::string& fault : faults) fmt::print(stderr, "pulsegate: {}\n", fault);
    if (faults.empty()) fmt::print("pulsegate: the settings are right\n");
    return faults.empty() ? 0 : 1;
}

/// Reads the settings, and serves by them.
int start(int argc, char** argv) {
    ConfigReload settings(argc, argv, ::environ);
    const ConfigReading& reading = settings.in_force();
    if (reading.is_check()) return check(reading);
    const auto faults = reading.faults();
    if (!faults.empty()) throw ConfigError(faults.front());
    if (reading.prints_config()) throw UsageRequested{settings_in_force(reading.settings())};
    try {
        return serve(settings, argv);
    } catch (const ConfigError& error) {
        throw ConfigError(settings.in_force().located(error.what()));
    }
}

/// Of a command that has a new place.
int say_moved() {
    fmt::print(stderr, "pulsegate: torture: pulsegate-loadgen kill does this now\n");
    return wrong_usage;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (command == "passwd") return passwd_command(argc - 1, argv + 1);
    if (command == "backup") return backup_command(argc - 1, argv + 1);
    if (command == "ctl") return ctl_command(argc - 1, argv + 1);
    if (command == "import") return import_command(argc - 1, argv + 1);
    if (command == "token") return token_command(argc - 1, argv + 1);
    if (command == "torture") return say_moved();
    try {
        return start(argc, argv);
    } catch (const UsageRequested& informed) {
        std::fputs(informed.text.c_str(), stdout);
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate: {}\n", error.what());
        return 1;
    }
}
