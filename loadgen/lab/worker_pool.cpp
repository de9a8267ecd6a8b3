#include "loadgen/lab/worker_pool.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "loadgen/lab/worker_listener.h"

namespace pulsegate::load {

WorkerPool WorkerPool::of_processes(std::uint32_t count) {
    WorkerPool pool;
    for (std::uint32_t number = 0; number < count; ++number) {
        WorkerProcess process;
        ControlLink link(process.take_socket());
        pool.members_.push_back(
            {std::move(process), std::move(link), fmt::format("worker {}", number), {}, {}});
    }
    return pool;
}

WorkerPool WorkerPool::of_remote(const RemoteWorkers& remote, Interruption& interruption,
                                 const std::function<void(const std::string&)>& say) {
    WorkerPool pool;
    pool.remote_ = true;
    WorkerListener listener(remote);
    say(
        fmt::format("waiting for {} worker{} at port {}; on their machines: pulsegate-loadgen "
                    "--worker --coordinator HOST:{} --token-file FILE",
                    remote.count, remote.count == 1 ? "" : "s", listener.port(), listener.port()));
    while (pool.members_.size() < remote.count) {
        auto arrived = listener.next(interruption);
        pool.members_.push_back(
            {std::nullopt, std::move(arrived.link),
             fmt::format("worker {} ({})", pool.members_.size(), arrived.address),
             arrived.clock.offset(), arrived.clock.error()});
        say(fmt::format("{} is here", pool.members_.back().name));
    }
    return pool;
}

}  // namespace pulsegate::load
