#include "server/loop/poller.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "server/base/prefetch.h"

namespace pulsegate {

namespace {

constexpr std::uint32_t news = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;

Readiness readiness(std::uint32_t events) {
    constexpr std::uint32_t broken = EPOLLHUP | EPOLLERR;
    constexpr std::uint32_t drain = EPOLLPRI | EPOLLRDHUP | broken;
    return {.readable = (events & (EPOLLIN | drain)) != 0,
            .writable = (events & (EPOLLOUT | broken)) != 0,
            .drain = (events & drain) != 0};
}

/// What most of those who are told have in one place.
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
    return control(EPOLL_CTL_ADD, descriptor, news, polled);
}

bool Poller::add_insistent(int descriptor, Polled& polled) {
    return control(EPOLL_CTL_ADD, descriptor, EPOLLIN, polled);
}

void Poller::want_to_write(int descriptor, Polled& polled) {
    // The kernel looks at the descriptor once more: if it takes bytes by now, that is news.
    control(EPOLL_CTL_MOD, descriptor, news | EPOLLOUT, polled);
}

void Poller::remove(int descriptor, Polled& polled) {
    control(EPOLL_CTL_DEL, descriptor, 0, polled);
    forget(polled);
}

void Poller::close(UniqueFd descriptor, Polled& polled) {
    { const UniqueFd closed = std::move(descriptor); }  // which takes it out of the set
    forget(polled);
}

/// A batch is short, and few are removed while it is told: to look through the rest of it costs
/// less than to keep note of them.
void Poller::forget(const Polled& polled) {
    thread_.assert_here();
    for (epoll_event& event : batch_)
        if (event.data.ptr == &polled) event.data.ptr = nullptr;
}

void Poller::wait(int timeout) {
    thread_.assert_here();
    // Not the C library's function, which is a cancellation point: no thread here is cancelled.
    const auto count = ::syscall(SYS_epoll_pwait, epoll_.get(), events_.data(),
                                 static_cast<int>(most), timeout, nullptr, 0);
    // -1 is EINTR: a signal's handler has run.
    batch_ = {events_.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
    for (const epoll_event& event : batch_) prefetch(event.data.ptr, fetched);
}

void Poller::tell() {
    while (!batch_.empty()) {
        const epoll_event event = batch_.front();
        batch_ = batch_.subspan(1);
        auto* const polled = static_cast<Polled*>(event.data.ptr);
        if (!polled) continue;  // removed meanwhile
        polled->on_ready(readiness(event.events));
    }
}

}  // namespace pulsegate
