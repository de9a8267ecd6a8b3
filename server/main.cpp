#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "server/base/clock.h"
#include "server/base/files/line_writer.h"
#include "server/base/log.h"
#include "server/commands/backup_command.h"
#include "server/commands/passwd_command.h"
#include "server/server.h"
#include "server/settings/config.h"

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
    explicit Log(spdlog::level::level_enum level) {
        auto sink = std::make_shared<LogSink>();
        sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(
            "%Y-%m-%dT%H:%M:%S.%e%z %l %v", spdlog::pattern_time_type::local, ""));
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("pulsegate", std::move(sink)));
        spdlog::set_level(level);
    }
    ~Log() { spdlog::shutdown(); }
};

/// Where the demo's page is.
void say_demo(const Server& server) {
    for (const auto& [url, open_to_anybody] : server.listening())
        if (!url.for_clients())
            return spdlog::info("demo: open {}/chat in two tabs of a browser", url.text());
}

void say_ready(const Server& server, const Config& config) {
    std::string where;
    for (const auto& [url, open_to_anybody] : server.listening()) where += url.text() + ", ";
    spdlog::info("ready: {}{} shards, room for {} connections ({})", where, config.shards,
                 server.admission().capacity(), server.admission().bound());
    const auto wanted = config.admission.max_connections;
    if (wanted > server.admission().capacity())
        spdlog::warn(
            "max-connections: there is no room for {}; raise the limit on open files with "
            "ulimit -n, or LimitNOFILE in a systemd unit",
            wanted);
    for (const auto& [url, open_to_anybody] : server.listening())
        if (open_to_anybody) spdlog::warn("{}: clients are not authenticated", url.text());
    if (config.rooms_are_closed && !config.rooms_are_stated)
        spdlog::info(
            "rooms: only members read room/... and publish there; --rooms open if all may");
    if (config.demo) say_demo(server);
}

/// What the main thread does while the shards serve: it waits for SIGTERM or SIGINT, reloads on
/// SIGHUP, and returns memory to the system. Construct it before any other thread: threads inherit
/// the blocked signals, so that only the main thread takes them.
class Watch {
public:
    Watch() {
        sigemptyset(&signals_);
        for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, signal);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    }

    /// From any thread: has `wait` return.
    void end() {
        store_failed_ = true;
        ::kill(::getpid(), SIGTERM);
    }

    /// Returns on SIGTERM or SIGINT, and when the store has failed.
    void wait(Server& server) {
        while (true) {
            const timespec a_minute{.tv_sec = 60, .tv_nsec = 0};
            switch (sigtimedwait(&signals_, nullptr, &a_minute)) {
                case SIGTERM:
                    if (!store_failed_) spdlog::info("SIGTERM: shutting down");
                    return;
                case SIGINT: return spdlog::info("SIGINT: shutting down");
                case SIGHUP:
                    spdlog::info("SIGHUP: reloading");
                    server.reload();
                    break;
                default: give_back_memory(server.admission().open());
            }
        }
    }

private:
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

int serve(const Config& config) {
    check_clock();
    ::umask(::umask(0) | S_IWGRP | S_IRWXO);  // SQLite's files are for everybody else
    std::signal(SIGPIPE, SIG_IGN);  // a reader that closes our output is an error of a write
    Watch watch;                    // before any thread starts
    const Log log(config.log_level);
    Server server(config, [&watch] { watch.end(); });
    server.start();
    say_ready(server, config);
    watch.wait(server);
    std::thread([&server] {
        std::this_thread::sleep_for(longest_stop);
        say_at_once("some connections did not end in time: exiting");
        std::_Exit(server.is_stored() ? 0 : not_stored);
    }).detach();
    server.stop();
    spdlog::info("stopped");
    return server.is_stored() ? 0 : not_stored;
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
    if (command == "torture") return say_moved();
    try {
        return serve(parse_config(argc, argv));
    } catch (const UsageRequested& informed) {
        std::fputs(informed.text.c_str(), stdout);
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate: {}\n", error.what());
        return 1;
    }
}
