#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace pulsegate {

/// Writes lines to a file from a thread of its own: the log, and the presence changes of
/// `--events`. Shards hand lines over and go on, so that a slow disk or a reader that stands still
/// stops nobody's loop. What finds no room is lost, and counted.
class LineWriter {
public:
    /// Is told, on the writer's thread, what went wrong.
    using Complain = std::function<void(const std::string&)>;

    /// Appends to `path`; `-` is standard output. Throws std::system_error.
    LineWriter(const std::string& path, Complain complain);

    /// Writes to a file that is open and stays so.
    LineWriter(int file, Complain complain);

    /// Writes what is left.
    ~LineWriter();

    /// Goes on in a new file of the same path, should the old one have been moved away.
    void reopen();

    /// From any thread. Lines of one caller keep their order.
    void write(std::string_view line);

private:
    void run();
    void open_again();
    void write_out(const std::string& lines);

    const std::string path_;  ///< empty: the file is not ours to open or close
    int file_;
    const Complain complain_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::string waiting_;
    std::uint64_t lost_ = 0;
    bool stop_ = false;
    bool reopen_ = false;
    std::thread thread_;
};

}  // namespace pulsegate
