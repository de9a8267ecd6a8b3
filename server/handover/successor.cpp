#include "server/handover/successor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

extern "C" {  // glibc 2.36 declares it without this
#include <sys/pidfd.h>
}

namespace pulsegate {

namespace {

/// The descriptor of the new process; it has no others except the standard ones.
constexpr int channel_descriptor = STDERR_FILENO + 1;
constexpr int report_descriptor = channel_descriptor + 1;  ///< until it runs the program

/// In milliseconds, for a process to end that was killed.
constexpr int most_waits = 5'000;

/// True for variables that are meant for this process only, mostly of systemd: the passed sockets,
/// and the watched process.
bool is_for_this_process(std::string_view variable) {
    constexpr std::string_view names[] = {
        "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "WATCHDOG_PID=", "PULSEGATE_HANDOVER="};
    return std::ranges::any_of(names, [&](auto name) { return variable.starts_with(name); });
}

/// Reports from a child below to the process that waits: the number of the new process, or a
/// negative error.
void report_number(int to, int number) {
    [[maybe_unused]] const ssize_t sent = ::write(to, &number, sizeof number);
}

/// Replaces this child with the other program. Only functions that are allowed in a signal handler
/// may be called, because the process had other threads before the fork.
[[noreturn]] void become(const char* program, char** arguments, char** environment, int channel,
                         int told) {
    // Duplicates both to high numbers first, because one of them may have the number that the other
    // one gets.
    const int high_channel = ::fcntl(channel, F_DUPFD, report_descriptor + 1);
    const int high_told = ::fcntl(told, F_DUPFD, report_descriptor + 1);
    ::dup2(high_channel, channel_descriptor);
    ::dup3(high_told, report_descriptor, O_CLOEXEC);
    ::closefrom(report_descriptor + 1);
    ::execve(program, arguments, environment);
    report_number(report_descriptor, -errno);
    ::_exit(EXIT_FAILURE);
}

/// The reported numbers. Waits until all children have ended or run a program.
std::vector<int> all_reports(int from) {
    std::vector<int> numbers;
    int number = 0;
    for (;;) {
        const ssize_t got = ::read(from, &number, sizeof number);
        if (got == sizeof number)
            numbers.push_back(number);
        else if (got >= 0 || errno != EINTR)
            return numbers;
    }
}

/// Starts a program as a child of the process manager, and not of this process. systemd waits only
/// for the end of its own children, and kills other processes at once when a service must stop
/// (systemd 252, unit_kill_context). So there is a child in between, which ends at once.
pid_t start_program(const std::string& program, char** arguments, int channel) {
    std::string own = fmt::format("{}={}", handover_variable, channel_descriptor);
    std::vector<char*> environment{own.data()};
    for (char** each = ::environ; *each; ++each)
        if (!is_for_this_process(*each)) environment.push_back(*each);
    environment.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        throw HandoverError(fmt::format("can't start {}: {}", program, std::strerror(errno)));
    const UniqueFd reads(ends[0]);
    UniqueFd tells(ends[1]);
    const pid_t between = ::fork();
    if (between == 0) {
        const pid_t process = ::fork();
        if (process == 0)
            become(program.c_str(), arguments, environment.data(), channel, tells.get());
        report_number(tells.get(), process > 0 ? process : -errno);
        ::_exit(EXIT_SUCCESS);
    }
    int error = between < 0 ? errno : 0;
    tells = UniqueFd();
    pid_t process = -1;
    for (const int number : all_reports(reads.get())) (number > 0 ? process : error) = number;
    if (between > 0) ::waitpid(between, nullptr, 0);
    if (error != 0 || process < 0)
        throw HandoverError(
            fmt::format("can't start {}: {}", program, std::strerror(std::abs(error))));
    return process;
}

}  // namespace

bool has_ended(pid_t process) {
    if (::kill(process, 0) != 0) return true;
    std::ifstream file(fmt::format("/proc/{}/stat", process));
    std::string line;
    std::getline(file, line);
    // The name in brackets may hold blanks and brackets. The letter of the state follows it.
    const auto end_of_name = line.rfind(')');
    if (end_of_name == std::string::npos) return false;
    std::istringstream fields(line.substr(end_of_name + 1));
    constexpr int from_state_to_threads = 17;
    std::string state, field;
    fields >> state;
    for (int i = 0; i < from_state_to_threads; ++i) fields >> field;
    // The first thread may have ended while others still have the files open.
    return state == "X" || (state == "Z" && field == "1");
}

Successor::Successor(const std::string& program, char** arguments) : channel_(UniqueFd()) {
    auto [ours, theirs] = HandoverChannel::make_pair();
    process_ = start_program(program, arguments, theirs.get());
    handle_ = UniqueFd(::pidfd_open(process_, 0));
    channel_ = std::move(ours);
}

Successor::~Successor() { end(); }

void Successor::end() {
    const pid_t process = std::exchange(process_, -1);
    if (process < 0) return;
    const UniqueFd handle = std::move(handle_);
    if (!handle) {  // the process has ended, or a filter of system calls allows no pidfd
        ::kill(process, SIGKILL);
        for (int waits = 0; !has_ended(process) && waits < most_waits; ++waits)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
    }
    ::pidfd_send_signal(handle.get(), SIGKILL, nullptr, 0);
    pollfd ended{.fd = handle.get(), .events = POLLIN, .revents = 0};
    while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
    }
}

}  // namespace pulsegate
