#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace pulsegate {

/// Writes lines to a file from its own thread: the log, and the presence changes of `--events`. A
/// slow disk or a blocked reader does not delay the event loops: if the buffer is full, lines are
/// lost and counted. A line after a pause is written at once, and the lines of the next few
/// milliseconds together. Lines for a named pipe wait until it has a reader.
class LineWriter {
public:
    /// Called on the writer's thread with an error.
    using Complain = std::function<void(const std::string&)>;

    /// Appends to `path`, which it creates with mode 0640; `-` is standard output. Throws
    /// std::system_error, also if the path is a symbolic link.
    LineWriter(const std::string& path, Complain complain);

    /// Writes to an open file, which it does not close.
    LineWriter(int file, Complain complain);

    /// Writes the remaining lines first, unless the reader is blocked.
    ~LineWriter();

    /// Opens the path again, for log rotation: later lines go to the new file.
    void reopen();

    /// Any thread may call it. Lines of one caller keep their order.
    void write(std::string_view line);

    /// Waits until all lines so far are in the file, or until the deadline.
    void flush(std::chrono::steady_clock::time_point deadline);

private:
    void run();
    void rotate();
    bool has_reader();
    void write_out(std::string& lines);
    void write_to_file(std::string& lines);
    bool takes_more();
    bool is_stopping();

    const std::string path_;  ///< empty: the file is not closed here
    int file_;                ///< -1: a pipe without a reader
    bool waited_ = false;     ///< it has waited for a reader of the pipe
    std::size_t most_at_once_;
    const Complain complain_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::string waiting_;
    std::uint64_t lost_ = 0;
    bool asleep_ = false;  ///< the next line must wake the thread
    std::condition_variable written_;
    bool stop_ = false;
    bool reopen_ = false;
    std::thread thread_;
};

}  // namespace pulsegate
