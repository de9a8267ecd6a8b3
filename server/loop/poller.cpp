#include "server/loop/poller.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "server/base/memory/prefetch.h"

namespace pulsegate {

namespace {

constexpr std::uint32_t events_of_interest = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;

Readiness readiness(std::uint32_t events) {
    constexpr std::uint32_t broken = EPOLLHUP | EPOLLERR;
    constexpr std::uint32_t more_behind = EPOLLPRI | EPOLLRDHUP | broken;
    return {.readable = (events & (EPOLLIN | more_behind)) != 0,
            .writable = (events & (EPOLLOUT | broken)) != 0,
            .more_behind = (events & more_behind) != 0};
}

/// Most of what a connection needs when it is told lies in one place of this size.
constexpr std::size_t fetched = 176;

}  // namespace

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll");
}

bool Poller::control(int operation, int descriptor, std::uint32_t events, Polled& polled) const {
    epoll_event event{.events = events, .data = {.ptr = &polled}};
    return ::epoll_ctl(epoll_.get(), operation, descriptor, &event) == 0;
}

bool Poller::add(int descriptor, Polled& polled) {
    return control(EPOLL_CTL_ADD, descriptor, events_of_interest, polled);
}

void Poller::want_to_write(int descriptor, Polled& polled) {
    // The kernel looks at the descriptor once more: if it takes bytes by now, that is an event.
    control(EPOLL_CTL_MOD, descriptor, events_of_interest | EPOLLOUT, polled);
}

void Poller::remove(int descriptor, Polled& polled) {
    control(EPOLL_CTL_DEL, descriptor, 0, polled);
    forget(polled);
}

void Poller::close(UniqueFd descriptor, Polled& polled) {
    // To close it is not enough: if another process has the same socket, as in an upgrade, the
    // socket stays in the set.
    remove(descriptor.get(), polled);
}

/// A batch is short, and few are removed while it is dispatched: to look through the rest of it
/// costs less than to keep note of them.
void Poller::forget(const Polled& polled) {
    thread_.assert_here();
    for (epoll_event& event : batch_)
        if (event.data.ptr == &polled) event.data.ptr = nullptr;
}

void Poller::poll() {
    thread_.assert_here();
    // Not the C library's function, which is a cancellation point, because no thread here is
    // cancelled.
    const auto count = ::syscall(SYS_epoll_pwait, epoll_.get(), events_.data(),
                                 static_cast<int>(most), 0, nullptr, 0);
    // -1 is EINTR: a signal's handler has run.
    batch_ = {events_.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
    for (const epoll_event& event : batch_) prefetch(event.data.ptr, fetched);
}

void Poller::dispatch() {
    while (!batch_.empty()) {
        const epoll_event event = batch_.front();
        batch_ = batch_.subspan(1);
        auto* const polled = static_cast<Polled*>(event.data.ptr);
        if (!polled) continue;  // removed meanwhile
        polled->on_ready(readiness(event.events));
    }
}

}  // namespace pulsegate
