#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "loadgen/net/descriptor.h"

namespace pulsegate::load {

/// A worker on this machine: this program in a separate process, which ends when this process ends.
class WorkerProcess {
public:
    /// Throws `std::system_error` if the machine allows no more processes.
    WorkerProcess();
    WorkerProcess(WorkerProcess&& other) noexcept;
    WorkerProcess& operator=(WorkerProcess&&) = delete;
    ~WorkerProcess();

    /// Our end of the control connection. Take it only once.
    Descriptor take_socket() { return std::move(socket_); }

    /// How it ended, such as "was killed by signal 9", to explain a lost connection.
    std::string ending();

private:
    /// Its status as in waitpid, if it ends in time; then the process is gone.
    std::optional<int> ended(std::chrono::milliseconds within);

    Descriptor socket_;
    pid_t pid_ = -1;
};

}  // namespace pulsegate::load
