#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
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
    spdlog::set_default_logger(spdlog::stderr_color_mt("pulsegate"));
    spdlog::set_level(level);
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
}

void say_ready(const Server& server, const Config& config) {
    std::string where;
    for (const ListenUrl& url : server.listening()) where += url.text() + ", ";
    spdlog::info("ready: {}{} shards, room for {} connections (limit on open files: {})", where,
                 config.shards, server.admission().capacity(), server.admission().file_limit());
    for (const ListenUrl& url : server.listening())
        if (config.allow_anonymous && url.host != "127.0.0.1" && url.host != "::1" &&
            url.host != "localhost")
            spdlog::warn("{}: anybody may come in", url.text());
}

/// Takes SIGTERM and SIGINT from its construction on.
class Signals {
public:
    Signals() : signals_(io_, SIGTERM, SIGINT) {
        signals_.async_wait([](boost::system::error_code, int signal) {
            spdlog::info("{}: taking leave of the clients",
                         signal == SIGTERM ? "SIGTERM" : "SIGINT");
        });
    }

    void wait() { io_.run(); }

private:
    boost::asio::io_context io_;
    boost::asio::signal_set signals_;
};

void serve(const Config& config) {
    set_up_log(config.log_level);
    Signals signals;  // first, so that none that comes early kills the process
    Server server(config);
    server.start();
    say_ready(server, config);
    signals.wait();
    std::thread([] {
        std::this_thread::sleep_for(longest_leave);
        spdlog::error("some connections would not end: leaving without goodbye");
        std::_Exit(0);
    }).detach();
    server.stop();
    spdlog::info("stopped");
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
