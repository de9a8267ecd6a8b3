#include "loadgen/net/interruption.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace pulsegate::load {

Interruption::Interruption() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set, &others_);
    signals_ = Descriptor(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!signals_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

Interruption::~Interruption() { ::sigprocmask(SIG_SETMASK, &others_, nullptr); }

bool Interruption::take() {
    signalfd_siginfo signal{};
    if (::read(fd(), &signal, sizeof(signal)) != sizeof(signal)) return false;
    if (std::exchange(taken_, true)) ::_exit(exit_status);
    return true;
}

}  // namespace pulsegate::load
