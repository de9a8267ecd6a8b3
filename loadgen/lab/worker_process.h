#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "loadgen/net/descriptor.h"

namespace pulsegate::load {

/// A worker on this machine: this program in a process of its own, which ends when we end.
class WorkerProcess {
public:
    /// Throws `std::system_error` if the machine allows no more processes.
    WorkerProcess();
    WorkerProcess(WorkerProcess&& other) noexcept;
    WorkerProcess& operator=(WorkerProcess&&) = delete;
    ~WorkerProcess();

    /// Our end of the control connection; to be taken once.
    Descriptor take_socket() { return std::move(socket_); }

    /// How it ended, such as "was killed by signal 9", for a connection that was lost.
    std::string ending();

private:
    /// Its status as of waitpid, if it ends in time; then it is no more.
    std::optional<int> ended(std::chrono::milliseconds within);

    Descriptor socket_;
    pid_t pid_ = -1;
};

}  // namespace pulsegate::load
