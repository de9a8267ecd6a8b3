#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace pulsegate {

/// The file of presence changes (`--events`), one line each. Shards hand lines over and go on; a
/// thread of its own writes, so that a slow disk stops nobody's loop.
class EventLog {
public:
    /// Appends to `path`; `-` is standard output. Throws std::system_error.
    explicit EventLog(const std::string& path);

    /// Writes what is left.
    ~EventLog();

    /// From any thread. Lines of one caller keep their order.
    void write(std::string_view line);

private:
    void run();
    void write_out(const std::string& lines);

    std::string path_;
    int file_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::string waiting_;
    std::uint64_t lost_ = 0;  ///< lines that found no room
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace pulsegate
