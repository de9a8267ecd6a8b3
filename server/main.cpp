#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "server/config.h"
#include "server/log.h"
#include "server/server.h"

namespace {

using namespace pulsegate;

/// Leaving must not take longer than a service manager's patience.
constexpr auto longest_leave = std::chrono::seconds(9);

void set_up_log(spdlog::level::level_enum level) {
    // Standard output belongs to `--events -`.
    // A reader of the log that stands still must not stop the gateway: lines are dropped instead.
    spdlog::set_default_logger(
        spdlog::create_async_nb<spdlog::sinks::stderr_color_sink_mt>("pulsegate"));
    spdlog::set_level(level);
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
}

void say_ready(const Server& server, const Config& config) {
    std::string where;
    for (const auto& [url, open_to_others] : server.listening()) where += url.text() + ", ";
    spdlog::info("ready: {}{} shards, room for {} connections (limit on open files: {})", where,
                 config.shards, server.admission().capacity(), server.admission().file_limit());
    for (const auto& [url, open_to_others] : server.listening())
        if (open_to_others) spdlog::warn("{}: anybody may come in", url.text());
}

/// What the main thread does while the shards serve: waits for SIGTERM or SIGINT, which it takes
/// from its construction on, and gives memory back.
class Watch {
public:
    Watch() : signals_(io_, SIGTERM, SIGINT), housekeeping_(io_) {
        signals_.async_wait([this](boost::system::error_code, int signal) {
            spdlog::info("{}: taking leave of the clients",
                         signal == SIGTERM ? "SIGTERM" : "SIGINT");
            io_.stop();
        });
        give_memory_back();
    }

    void keep() { io_.run(); }

private:
    /// After a storm the allocator would keep what those who left had needed.
    void give_memory_back() {
        housekeeping_.expires_after(std::chrono::minutes(1));
        housekeeping_.async_wait([this](boost::system::error_code error) {
            if (error) return;
            malloc_trim(0);
            give_memory_back();
        });
    }

    boost::asio::io_context io_;
    boost::asio::signal_set signals_;
    boost::asio::steady_timer housekeeping_;
};

void serve(const Config& config) {
    std::signal(SIGPIPE, SIG_IGN);  // who reads our output may go; that is an error of a write
    set_up_log(config.log_level);
    Watch watch;  // first, so that no signal that comes early kills the process
    Server server(config);
    server.start();
    say_ready(server, config);
    watch.keep();
    std::thread([] {
        std::this_thread::sleep_for(longest_leave);
        spdlog::error("some connections would not end: leaving without goodbye");
        spdlog::shutdown();
        std::_Exit(0);
    }).detach();
    server.stop();
    spdlog::info("stopped");
    spdlog::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
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
