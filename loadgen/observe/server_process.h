#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "loadgen/measure/measurements.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The server's process, as /proc shows it to every user of its machine.
class ServerProcess {
public:
    explicit ServerProcess(std::uint32_t pid, const std::string& proc = "/proc");

    /// The process that listens on `port` of `address` or of all addresses. It looks at the files
    /// of all processes that this user may see, so call it rarely.
    static std::optional<std::uint32_t> listening_on(const std::string& address,
                                                     std::uint16_t port);

    std::uint32_t pid() const { return pid_; }
    std::string command() const;

    /// Sets `server_cpu` and `server_wait` since the last call, `server_memory`, `server_threads`
    /// and `server_files`. Returns false if the process has ended.
    bool sample(Time now, Measurements& into);

private:
    void sample_wait(Time now, Measurements& into);

    std::uint32_t pid_;
    std::string folder_;
    Time last_{};
    std::optional<Duration> cpu_;
    std::map<std::string, Duration> waited_;  ///< each thread, since it began
};

}  // namespace pulsegate::load
