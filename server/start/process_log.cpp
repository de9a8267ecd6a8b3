#include "server/start/process_log.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "server/base/files/line_writer.h"
#include "server/base/log.h"

namespace pulsegate {

void say_at_once(const std::string& text) {
    pollfd event{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&event, 1, 0) == 1) fmt::print(stderr, "pulsegate: {}\n", text);
}

namespace {

/// Writes the log through a LineWriter, because the reader of standard error may block.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        writer_.write({line.data(), line.size()});
    }
    /// Waits for a moment until everything is written.
    void flush_() override {
        writer_.flush(std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
    }

    LineWriter writer_{STDERR_FILENO,
                       [](const std::string& trouble) { say_at_once("log: " + trouble); }};
};

}  // namespace

ProcessLog::ProcessLog(spdlog::level::level_enum level, LogFormat format) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("pulsegate", std::make_shared<LogSink>()));
    use(level, format);
}

ProcessLog::~ProcessLog() { spdlog::shutdown(); }

void ProcessLog::use(spdlog::level::level_enum level, LogFormat format) {
    spdlog::set_level(level);
    set_log_has_fields(format == LogFormat::json);
    spdlog::set_formatter(log_formatter(format));
}

}  // namespace pulsegate
