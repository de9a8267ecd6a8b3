#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/base/files/unique_fd.h"
#include "server/base/owner_thread.h"

namespace pulsegate {

/// What has happened to a descriptor.
struct Readiness {
    bool readable;  ///< bytes have come, or connections, or the end
    bool writable;
    /// A short read does not mean that there is no more: the end follows, or bytes behind urgent
    /// ones.
    bool more_behind;
};

/// It has a descriptor, and is told what happens to it.
class Polled {
public:
    /// It may add and remove any, this one too.
    virtual void on_ready(Readiness ready) = 0;

protected:
    ~Polled() = default;
};

/// The descriptors of one thread's clients, in an epoll set. It owns neither them nor the objects
/// that it tells.
///
/// Each event is told once (EPOLLET): a connection that has not read everything remembers that
/// itself. So nothing is armed again after an event, and bytes that are left unread for a while
/// cost nothing.
class Poller {
public:
    /// Throws std::system_error if there is no descriptor for it.
    Poller();

    /// The epoll set, which is readable when one of its descriptors has an event.
    int descriptor() const { return epoll_.get(); }

    /// Tells it from now on what there is to read, and of the end. False if the kernel has no
    /// memory for that; `errno` says it.
    [[nodiscard]] bool add(int descriptor, Polled& polled);

    /// The descriptor has taken no more bytes: tells it when there is room again.
    void want_to_write(int descriptor, Polled& polled);

    /// Tells it nothing more, not even what this batch has for it.
    void remove(int descriptor, Polled& polled);
    /// The same, and closes the descriptor.
    void close(UniqueFd descriptor, Polled& polled);

    /// Takes a batch of the events that are there, without waiting for any. The batch must be
    /// dispatched before the next call, which takes what this one has left.
    void poll();
    void dispatch();

private:
    bool control(int operation, int descriptor, std::uint32_t events, Polled& polled) const;
    void forget(const Polled& polled);

    static constexpr std::size_t most = 128;

    UniqueFd epoll_;
    std::array<epoll_event, most> events_;
    std::span<epoll_event> batch_;  ///< of `events_`, what is still to be dispatched
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
