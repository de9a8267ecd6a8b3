#include "server/start/early_end.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "server/base/machine.h"
#include "server/start/service_manager.h"

namespace pulsegate {

namespace {

int descriptor_of_ends() {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    return ::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

[[noreturn]] void end_start(std::uint32_t signal) {
    service::tell_stopping("stopping");
    spdlog::info("{}: ending before the start is complete",
                 signal == SIGTERM ? "SIGTERM" : "SIGINT");
    spdlog::default_logger()->flush();
    std::_Exit(0);
}

}  // namespace

EarlyEnd::EarlyEnd()
    : signals_(descriptor_of_ends()), over_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (signals_ && over_) thread_ = std::thread([this] { await_signal(); });
}

EarlyEnd::~EarlyEnd() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    static_cast<void>(!::write(over_.get(), &one, sizeof one));
    thread_.join();
}

void EarlyEnd::await_signal() const {
    name_thread("early end");
    pollfd events[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                       {.fd = over_.get(), .events = POLLIN, .revents = 0}};
    bool is_own = false;
    for (;;) {
        if (::poll(events, 2, -1) < 0) continue;
        if (events[1].revents != 0) break;
        signalfd_siginfo arrived{};
        if (::read(signals_.get(), &arrived, sizeof arrived) != sizeof arrived) continue;
        if (arrived.ssi_pid != static_cast<std::uint32_t>(::getpid())) end_start(arrived.ssi_signo);
        is_own = true;
    }
    if (is_own) ::kill(::getpid(), SIGTERM);
}

}  // namespace pulsegate
