#include "server/event_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "server/log.h"

namespace pulsegate {

namespace {

/// What may wait for a disk that stands still: some half a million changes.
constexpr std::size_t most_waiting = 64 * 1024 * 1024;

}  // namespace

EventLog::EventLog(const std::string& path)
    : path_(path),
      file_(path == "-" ? STDOUT_FILENO
                        : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), path);
    thread_ = std::thread([this] { run(); });
}

EventLog::~EventLog() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
    if (file_ != STDOUT_FILENO) ::close(file_);
}

void EventLog::write(std::string_view line) {
    {
        std::lock_guard lock(mutex_);
        if (waiting_.size() > most_waiting) {
            ++lost_;
            return;
        }
        const bool idle = waiting_.empty();
        waiting_.append(line).push_back('\n');
        if (!idle) return;
    }
    wake_.notify_one();
}

void EventLog::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        const auto lines = std::exchange(waiting_, {});
        const auto lost = std::exchange(lost_, 0);
        lock.unlock();
        if (lost > 0) spdlog::error("events: {} changes lost, {} is too slow", lost, path_);
        write_out(lines);
        lock.lock();
    }
}

void EventLog::write_out(const std::string& lines) {
    for (std::size_t done = 0; done < lines.size();) {
        const auto written = ::write(file_, lines.data() + done, lines.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0)
            return log_limited(spdlog::level::err, "events: {}: {}; {} bytes of changes lost",
                               path_, std::strerror(errno), lines.size() - done);
        done += static_cast<std::size_t>(written);
    }
}

}  // namespace pulsegate
