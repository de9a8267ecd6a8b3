#include "server/base/files/line_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

#include "server/base/machine.h"

namespace pulsegate {

namespace {

using namespace std::chrono_literals;

/// The maximum of waiting bytes while the file accepts nothing: about half a million lines.
constexpr std::size_t most_waiting = 64 * 1024 * 1024;

/// The pause of the thread after each write. Waking the thread costs more than writing a line, so
/// lines in quick succession are written together.
constexpr auto rest = 5ms;

/// The pause before a pipe without a reader is tried again.
constexpr auto patience_with_pipe = 100ms;

/// How long a blocked reader may delay the end.
constexpr int patience_at_end = 200;  // ms

/// Opens the file. Returns -1 for a pipe without a reader.
int open_file(const std::string& path) {
    if (path == "-") return STDOUT_FILENO;
    // Other users must not read the file, because it tells who is online. A link is not followed,
    // because in a folder that others may write to it could lead to any file. A pipe without a
    // reader must not block the gateway.
    constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int file = ::open(path.c_str(), flags, 0640);
    if (file >= 0 || errno == ENXIO) return file;
    const bool link = errno == ELOOP;
    throw std::system_error(errno, std::generic_category(),
                            link ? path + " is a symbolic link, which is not followed" : path);
}

/// The maximum of bytes in one write. Other processes may share the open file and expect blocking
/// writes, so it stays blocking. A pipe that is ready accepts this many bytes without waiting.
std::size_t most_at_once(int file) {
    struct stat about {};
    const bool never_waits = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    return never_waits ? SSIZE_MAX : PIPE_BUF;
}

}  // namespace

LineWriter::LineWriter(const std::string& path, Complain complain)
    : path_(path == "-" ? "" : path),
      file_(open_file(path)),
      most_at_once_(most_at_once(file_)),
      complain_(std::move(complain)),
      thread_([this] { run(); }) {}

LineWriter::LineWriter(int file, Complain complain)
    : file_(file),
      most_at_once_(most_at_once(file)),
      complain_(std::move(complain)),
      thread_([this] { run(); }) {}

LineWriter::~LineWriter() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
    if (!path_.empty() && file_ >= 0) ::close(file_);
}

void LineWriter::reopen() {
    {
        std::lock_guard lock(mutex_);
        reopen_ = !path_.empty();
    }
    wake_.notify_one();
}

void LineWriter::write(std::string_view line) {
    {
        std::lock_guard lock(mutex_);
        if (waiting_.size() > most_waiting) {
            ++lost_;
            return;
        }
        waiting_.append(line).push_back('\n');
        if (!std::exchange(asleep_, false)) return;
    }
    wake_.notify_one();
}

void LineWriter::flush(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    written_.wait_until(lock, deadline, [this] { return asleep_; });
}

bool LineWriter::is_stopping() {
    const std::lock_guard lock(mutex_);
    return stop_;
}

/// Writes without the lock, because writing may wait for the disk or a reader, and every event loop
/// needs the lock.
void LineWriter::run() {
    name_thread("lines");
    std::unique_lock lock(mutex_);
    while (true) {
        asleep_ = waiting_.empty();
        if (asleep_) written_.notify_all();
        wake_.wait(lock, [this] { return stop_ || reopen_ || !waiting_.empty(); });
        asleep_ = false;
        const bool is_to_rotate = std::exchange(reopen_, false);
        if (waiting_.empty() && stop_ && !is_to_rotate) return;
        auto lines = std::exchange(waiting_, {});
        const auto lost = std::exchange(lost_, 0);
        lock.unlock();
        if (is_to_rotate) rotate();
        if (lost > 0) complain_(fmt::format("{} lines lost: the file takes them too slowly", lost));
        write_out(lines);
        lock.lock();
        waiting_.insert(0, lines);
        wake_.wait_for(lock, lines.empty() ? rest : patience_with_pipe,
                       [this] { return stop_ || reopen_; });
    }
}

void LineWriter::rotate() {
    try {
        const int file = open_file(path_);
        if (file_ >= 0) ::close(file_);
        file_ = file;
        most_at_once_ = most_at_once(file);
    } catch (const std::system_error& error) {
        complain_(fmt::format("{}; {}", error.what(),
                              file_ < 0 ? "its lines wait" : "still writing to the old file"));
    }
}

bool LineWriter::has_reader() {
    if (file_ < 0) rotate();
    const bool waits = file_ < 0;
    if (waits && !waited_) complain_("nobody reads the pipe; its lines wait");
    waited_ = waits;
    return !waits;
}

/// Writes the lines, except lines that wait for a reader.
void LineWriter::write_out(std::string& lines) {
    if (lines.empty()) return;
    if (has_reader()) write_to_file(lines);
    if (lines.empty() || !is_stopping()) return;
    complain_(fmt::format("nobody reads the pipe: {} bytes lost", lines.size()));
    lines.clear();
}

void LineWriter::write_to_file(std::string& lines) {
    for (std::size_t done = 0; done < lines.size();) {
        const char* trouble = "its reader takes nothing";
        if (takes_more()) {
            const auto size = std::min(lines.size() - done, most_at_once_);
            const auto written = ::write(file_, lines.data() + done, size);
            if (written >= 0) done += static_cast<std::size_t>(written);
            if (written >= 0 || errno == EINTR || errno == EAGAIN) continue;
            if (errno == EPIPE && !path_.empty()) {
                ::close(std::exchange(file_, -1));
                // Keeps lines that are not written completely.
                if (done > 0) lines.erase(0, lines.rfind('\n', done - 1) + 1);
                return;
            }
            trouble = std::strerror(errno);
        }
        complain_(fmt::format("{}: {} bytes lost", trouble, lines.size() - done));
        break;
    }
    lines.clear();
}

/// Waits until the file accepts more. Returns false if it accepts nothing and the time is over.
bool LineWriter::takes_more() {
    pollfd event{.fd = file_, .events = POLLOUT, .revents = 0};
    while (true) {
        const bool is_last_time = is_stopping();
        const int ready = ::poll(&event, 1, patience_at_end);
        if (ready > 0) return true;
        if (ready == 0 && is_last_time) return false;
    }
}

}  // namespace pulsegate
