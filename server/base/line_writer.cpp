#include "server/base/line_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

namespace pulsegate {

namespace {

/// Bytes that may wait while the file takes nothing: about half a million lines.
constexpr std::size_t most_waiting = 64 * 1024 * 1024;

/// After each write the thread rests: to wake it costs more than to write a line, and many lines
/// that follow one another should not each pay for that.
constexpr auto rest = std::chrono::milliseconds(5);

int open_file(const std::string& path) {
    if (path == "-") return STDOUT_FILENO;
    // Who is there is not for everybody to read; and in a folder that others may write to, a link
    // would have us write to any file.
    constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    const int file = ::open(path.c_str(), flags, 0640);
    if (file >= 0) return file;
    const bool link = errno == ELOOP;
    throw std::system_error(errno, std::generic_category(),
                            link ? path + " is a symbolic link, which is not followed" : path);
}

}  // namespace

LineWriter::LineWriter(const std::string& path, Complain complain)
    : path_(path == "-" ? "" : path),
      file_(open_file(path)),
      complain_(std::move(complain)),
      thread_([this] { run(); }) {}

LineWriter::LineWriter(int file, Complain complain)
    : file_(file), complain_(std::move(complain)), thread_([this] { run(); }) {}

LineWriter::~LineWriter() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
    if (!path_.empty()) ::close(file_);
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

void LineWriter::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        asleep_ = waiting_.empty();
        wake_.wait(lock, [this] { return stop_ || reopen_ || !waiting_.empty(); });
        asleep_ = false;
        if (std::exchange(reopen_, false)) open_again();
        if (waiting_.empty() && stop_) return;
        const auto lines = std::exchange(waiting_, {});
        const auto lost = std::exchange(lost_, 0);
        lock.unlock();
        if (lost > 0) complain_(fmt::format("{} lines lost: the file takes them too slowly", lost));
        write_out(lines);
        lock.lock();
        wake_.wait_for(lock, rest, [this] { return stop_ || reopen_; });
    }
}

void LineWriter::open_again() {
    try {
        const int file = open_file(path_);
        ::close(std::exchange(file_, file));
    } catch (const std::system_error& error) {
        complain_(fmt::format("{}; still writing to the old file", error.what()));
    }
}

void LineWriter::write_out(const std::string& lines) {
    for (std::size_t done = 0; done < lines.size();) {
        const auto written = ::write(file_, lines.data() + done, lines.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0)
            return complain_(
                fmt::format("{}: {} bytes lost", std::strerror(errno), lines.size() - done));
        done += static_cast<std::size_t>(written);
    }
}

}  // namespace pulsegate
