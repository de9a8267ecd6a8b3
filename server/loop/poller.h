#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/base/files/unique_fd.h"
#include "server/base/owner_thread.h"

namespace pulsegate {

/// The events of a descriptor.
struct Readiness {
    bool readable;  ///< bytes, connections or the end have arrived
    bool writable;
    /// More follows even after a short read: the end, or bytes behind urgent ones.
    bool more_behind;
};

/// The owner of a descriptor, which is told of the descriptor's events.
class Polled {
public:
    /// It may add and remove any descriptor, including its own.
    virtual void on_ready(Readiness ready) = 0;

protected:
    ~Polled() = default;
};

/// The descriptors of one thread's clients, in an epoll set. It owns neither the descriptors nor
/// the objects that it tells.
///
/// Each event is told once (EPOLLET). A connection that has not read everything must remember that
/// itself. So no descriptor is armed again after an event, and unread bytes cost nothing.
class Poller {
public:
    /// Throws std::system_error if there is no descriptor for it.
    Poller();

    /// The epoll set, which is readable when one of its descriptors has an event.
    int descriptor() const { return epoll_.get(); }

    /// Tells `polled` from now on when there is something to read, or the end. Returns false and
    /// sets `errno` if the kernel has no memory.
    [[nodiscard]] bool add(int descriptor, Polled& polled);

    /// Tells `polled` when the descriptor takes bytes again.
    void want_to_write(int descriptor, Polled& polled);

    /// Tells `polled` nothing more, not even the rest of this batch.
    void remove(int descriptor, Polled& polled);
    /// The same, and closes the descriptor.
    void close(UniqueFd descriptor, Polled& polled);

    /// Takes a batch of pending events without waiting. Dispatch the batch before the next call,
    /// which takes further events.
    void poll();
    void dispatch();

private:
    bool control(int operation, int descriptor, std::uint32_t events, Polled& polled) const;
    void forget(const Polled& polled);

    static constexpr std::size_t most = 128;

    UniqueFd epoll_;
    std::array<epoll_event, most> events_;
    std::span<epoll_event> batch_;  ///< the part of `events_` that is not dispatched yet
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
