#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "server/auth/passwd_command.h"
#include "server/config.h"
#include "server/line_writer.h"
#include "server/log.h"
#include "server/server.h"

namespace {

using namespace pulsegate;

/// Leaving must not take longer than a service manager's patience.
constexpr auto longest_leave = std::chrono::seconds(9);

/// Hands the log's lines to a writer, because a reader of standard error may stand still.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        writer_.write({line.data(), line.size()});
    }
    void flush_() override {}

    LineWriter writer_{STDERR_FILENO, [](const std::string& trouble) {
                           fmt::print(stderr, "pulsegate: log: {}\n", trouble);
                       }};
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
        if (open_to_anybody) spdlog::warn("{}: anybody may come in", url.text());
}

/// What the main thread does while the shards serve: waits for SIGTERM or SIGINT, lets SIGHUP begin
/// new files, and gives memory back. Made before any other thread: it blocks these signals in all
/// of them, and they wait for the main thread to take them.
class Watch {
public:
    Watch() {
        sigemptyset(&signals_);
        for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, signal);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    }

    /// Returns when it is time to go.
    void keep(Server& server) {
        while (true) {
            const timespec a_minute{.tv_sec = 60, .tv_nsec = 0};
            switch (sigtimedwait(&signals_, nullptr, &a_minute)) {
                case SIGTERM: return spdlog::info("SIGTERM: taking leave of the clients");
                case SIGINT: return spdlog::info("SIGINT: taking leave of the clients");
                case SIGHUP:
                    spdlog::info("SIGHUP: beginning new files");
                    server.reload();
                    break;
                default:
                    // After a storm the allocator would keep what those who left had needed.
                    malloc_trim(0);
            }
        }
    }

private:
    sigset_t signals_;
};

void serve(const Config& config) {
    std::signal(SIGPIPE, SIG_IGN);  // who reads our output may go; that is an error of a write
    Watch watch;                    // before any thread
    const Log log(config.log_level);
    Server server(config);
    server.start();
    say_ready(server, config);
    watch.keep(server);
    std::thread([] {
        std::this_thread::sleep_for(longest_leave);
        fmt::print(stderr, "pulsegate: some connections would not end: leaving without goodbye\n");
        std::_Exit(0);
    }).detach();
    server.stop();
    spdlog::info("stopped");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "passwd")
        return passwd_command(argc - 1, argv + 1);
    try {
        serve(parse_config(argc, argv));
        return 0;
    } catch (const Informed& informed) {
        std::fputs(informed.text.c_str(), stdout);
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate: {}\n", error.what());
        return 1;
    }
}
