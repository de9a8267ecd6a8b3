#include "tests/support/killed_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace pulsegate {

namespace {

bool changes_a_file(const __ptrace_syscall_info& call) {
    switch (call.entry.nr) {
        case SYS_write:
        case SYS_pwrite64:
        case SYS_fsync:
        case SYS_fdatasync:
        case SYS_ftruncate:
        case SYS_renameat2:
        case SYS_unlinkat:
        case SYS_copy_file_range:
        case SYS_sendfile:
#ifdef SYS_rename
        case SYS_rename:
        case SYS_unlink:
#endif
            return true;
        case SYS_openat: return (call.entry.args[2] & O_CREAT) != 0;
        default: return false;
    }
}

/// Goes on to the next system call of the process. False: it has ended.
bool next_call(pid_t process) {
    int status = 0;
    for (int signal = 0;; signal = WSTOPSIG(status)) {
        REQUIRE(::ptrace(PTRACE_SYSCALL, process, nullptr, signal) == 0);
        REQUIRE(::waitpid(process, &status, 0) == process);
        if (WIFEXITED(status)) {
            CHECK(WEXITSTATUS(status) == 0);
            return false;
        }
        REQUIRE(WIFSTOPPED(status));
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return true;
    }
}

[[noreturn]] void run_child(const std::function<void()>& what) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    int status = 0;
    try {
        what();
    } catch (const std::exception&) {
        status = 1;
    }
    ::_exit(status);
}

}  // namespace

bool run_until_killed(int kill_at, const std::function<void()>& what) {
    const pid_t process = ::fork();
    REQUIRE(process >= 0);
    if (process == 0) run_child(what);
    int status = 0;
    REQUIRE(::waitpid(process, &status, 0) == process);
    ::ptrace(PTRACE_SETOPTIONS, process, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    int calls = 0;
    while (next_call(process)) {
        __ptrace_syscall_info call{};
        ::ptrace(PTRACE_GET_SYSCALL_INFO, process, sizeof call, &call);
        if (call.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_a_file(call)) continue;
        if (++calls < kill_at) continue;
        ::kill(process, SIGKILL);
        ::waitpid(process, &status, 0);
        return true;
    }
    return false;
}

}  // namespace pulsegate
