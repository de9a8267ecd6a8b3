#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/lab/control_link.h"
#include "loadgen/lab/worker_process.h"
#include "loadgen/net/interruption.h"
#include "loadgen/time.h"

namespace pulsegate::load {

struct RemoteWorkers;

/// The workers of runs, with their control connections.
class WorkerPool {
public:
    struct Member {
        std::optional<WorkerProcess> process;
        ControlLink link;  // destroyed before the process, which then ends by itself
        std::string name;
        Duration clock_offset{};  ///< added to its times, it gives common time
        Duration clock_error{};
    };

    /// Starts local worker processes for one run.
    static WorkerPool of_processes(std::uint32_t count);

    /// Waits for workers on other machines, and measures the offsets of their clocks. `say` tells
    /// the user what it waits for. Throws `std::runtime_error`, also when interrupted.
    static WorkerPool of_remote(const RemoteWorkers& remote, Interruption& interruption,
                                const std::function<void(const std::string&)>& say);

    std::deque<Member>& members() { return members_; }
    bool remote() const { return remote_; }

private:
    std::deque<Member> members_;
    bool remote_ = false;
};

}  // namespace pulsegate::load
