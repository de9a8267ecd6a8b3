#include "loadgen/lab/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace pulsegate::load {

namespace {

constexpr int worker_fd = 3;

constexpr auto time_to_end = std::chrono::milliseconds(2000);

/// In the child: only what is safe between fork and exec.
[[noreturn]] void become_worker(int socket, pid_t coordinator) {
    // Ctrl-C, or timeout(1), is for the coordinator, which lets the workers finish.
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGTERM, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != coordinator) ::_exit(1);

    const bool in_place = socket == worker_fd;
    if (in_place ? ::fcntl(socket, F_SETFD, 0) < 0 : ::dup2(socket, worker_fd) < 0) ::_exit(1);
    ::execl("/proc/self/exe", "pulsegate-loadgen", "--worker-fd", "3", nullptr);
    ::_exit(127);
}

}  // namespace

WorkerProcess::WorkerProcess() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw std::system_error(errno, std::generic_category(), "no socket for a worker");
    socket_ = Descriptor(ends[0]);
    const Descriptor theirs(ends[1]);
    const pid_t coordinator = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0)
        throw std::system_error(errno, std::generic_category(), "no process for a worker");
    if (pid_ == 0) become_worker(theirs.get(), coordinator);
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : socket_(std::move(other.socket_)), pid_(std::exchange(other.pid_, -1)) {}

// The control connection has ended, so the worker ends as well, after its clients have left in
// order.
WorkerProcess::~WorkerProcess() {
    if (pid_ < 0 || ended(time_to_end).has_value()) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

std::string WorkerProcess::ending() {
    // The kernel closes the sockets of a process a moment before `waitpid` sees its end.
    const auto status = ended(time_to_end);
    if (!status) return "closed its control connection";
    if (WIFSIGNALED(*status)) return fmt::format("was killed by signal {}", WTERMSIG(*status));
    return fmt::format("ended with status {}", WEXITSTATUS(*status));
}

std::optional<int> WorkerProcess::ended(std::chrono::milliseconds within) {
    constexpr auto step = std::chrono::milliseconds(10);
    for (auto waited = 0 * step; waited <= within; waited += step) {
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) == pid_) {
            pid_ = -1;
            return status;
        }
        std::this_thread::sleep_for(step);
    }
    return {};
}

}  // namespace pulsegate::load
