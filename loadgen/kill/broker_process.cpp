#include "loadgen/kill/broker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace pulsegate::kill {

namespace {

void kill_group(pid_t group) {
    if (group == 0) return;
    ::kill(-group, SIGKILL);
    while (::waitpid(-group, nullptr, 0) > 0 || errno == EINTR) {
    }
}

}  // namespace

BrokerProcess::BrokerProcess(std::vector<std::string> command, std::string log)
    : command_(std::move(command)), log_(std::move(log)) {
    // A process of the group that loses its parent becomes a child of ours, so that `kill` can
    // wait for it.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

BrokerProcess::~BrokerProcess() {
    kill();
    kill_standby();
}

void BrokerProcess::start() {
    group_ = std::exchange(standby_, 0);
    if (group_ == 0) group_ = spawn(command_);
}

void BrokerProcess::stand_by(const std::vector<std::string>& command) {
    if (standby_ == 0) standby_ = spawn(command);
}

pid_t BrokerProcess::spawn(const std::vector<std::string>& command) {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) become_broker(command, parent);
    ::setpgid(child, child);  // the child does so too: neither knows which comes first
    return child;
}

void BrokerProcess::become_broker(const std::vector<std::string>& command, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // it has died before that
    const int input = ::open("/dev/null", O_RDONLY);
    const int output = ::open(log_.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
    ::dup2(input, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    // A copy of a client's socket would keep the connection open.
    ::close_range(STDERR_FILENO + 1, ~0u, 0);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
}

void BrokerProcess::kill() { kill_group(std::exchange(group_, 0)); }

void BrokerProcess::kill_standby() { kill_group(std::exchange(standby_, 0)); }

void BrokerProcess::terminate() {
    if (group_ != 0) ::kill(-group_, SIGTERM);
}

std::optional<std::string> BrokerProcess::end_of(pid_t& group) {
    int status = 0;
    if (group == 0 || ::waitpid(group, &status, WNOHANG) != group) return std::nullopt;
    kill_group(std::exchange(group, 0));
    if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
    return fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace pulsegate::kill
