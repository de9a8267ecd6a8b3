#include "server/handover/successor.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace pulsegate {

namespace {

/// The child's descriptor; it has no others except the standard ones.
constexpr int channel_descriptor = STDERR_FILENO + 1;

/// Variables of systemd for this process alone: the sockets that it passes, and the process that it
/// watches.
bool is_for_this_process(std::string_view variable) {
    constexpr std::string_view names[] = {
        "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "WATCHDOG_PID=", "PULSEGATE_HANDOVER="};
    return std::ranges::any_of(names, [&](auto name) { return variable.starts_with(name); });
}

class SpawnActions {
public:
    SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
    ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;

    posix_spawn_file_actions_t* get() { return &actions_; }

private:
    posix_spawn_file_actions_t actions_{};
};

pid_t spawn(const std::string& program, char** arguments, int channel) {
    SpawnActions actions;
    // Another number first, because a descriptor that already has the right one would stay
    // close-on-exec.
    ::posix_spawn_file_actions_adddup2(actions.get(), channel, channel_descriptor + 1);
    ::posix_spawn_file_actions_adddup2(actions.get(), channel_descriptor + 1, channel_descriptor);
    ::posix_spawn_file_actions_addclosefrom_np(actions.get(), channel_descriptor + 1);
    std::string own = fmt::format("{}={}", handover_variable, channel_descriptor);
    std::vector<char*> environment{own.data()};
    for (char** each = ::environ; *each; ++each)
        if (!is_for_this_process(*each)) environment.push_back(*each);
    environment.push_back(nullptr);
    pid_t process = -1;
    const int error = ::posix_spawn(&process, program.c_str(), actions.get(), nullptr, arguments,
                                    environment.data());
    if (error != 0)
        throw HandoverError(fmt::format("can't start {}: {}", program, std::strerror(error)));
    return process;
}

}  // namespace

Successor::Successor(const std::string& program, char** arguments) : channel_(UniqueFd()) {
    auto [ours, theirs] = HandoverChannel::make_pair();
    process_ = spawn(program, arguments, theirs.get());
    channel_ = std::move(ours);
}

Successor::~Successor() { end(); }

void Successor::end() {
    const pid_t process = std::exchange(process_, -1);
    if (process < 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
}

}  // namespace pulsegate
