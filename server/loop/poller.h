#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/base/owner_thread.h"
#include "server/base/unique_fd.h"

namespace pulsegate {

/// What has happened to a descriptor.
struct Readiness {
    bool readable;  ///< bytes have come, or connections, or the end
    bool writable;
    /// A short read does not mean that there is no more: the end follows, or bytes behind urgent
    /// ones.
    bool drain;
};

/// Who has a descriptor, and is told what happens to it.
class Polled {
public:
    /// It may add and remove any, this one too.
    virtual void on_ready(Readiness ready) = 0;

protected:
    ~Polled() = default;
};

/// The descriptors of one thread, in an epoll set. It owns neither them nor who is told.
///
/// Only what is new is told, once (EPOLLET): whoever has not read all there is need not be told,
/// and remembers it. So nothing is armed again after each event, and who leaves its bytes unread
/// for a while costs nothing.
class Poller {
public:
    /// Throws std::system_error if there is no descriptor for it.
    Poller();

    /// Tells it from now on what there is to read, and of the end. False if the kernel has no
    /// memory for that; `errno` says it.
    [[nodiscard]] bool add(int descriptor, Polled& polled);

    /// The same, but in every batch as long as something is there.
    [[nodiscard]] bool add_insistent(int descriptor, Polled& polled);

    /// The descriptor has taken no more bytes: tells it when there is room again.
    void want_to_write(int descriptor, Polled& polled);

    /// Tells it nothing more, not even what this batch has for it.
    void remove(int descriptor, Polled& polled);
    /// The same, and closes the descriptor.
    void close(UniqueFd descriptor, Polled& polled);

    /// Waits for so many milliseconds, -1: without end, until something happens. Takes a batch of
    /// it, which must be told before the next call; the rest is for that.
    void wait(int timeout);
    void tell();

private:
    bool control(int operation, int descriptor, std::uint32_t events, Polled& polled) const;
    void forget(const Polled& polled);

    static constexpr std::size_t most = 128;

    UniqueFd epoll_;
    std::array<epoll_event, most> events_;
    std::span<epoll_event> batch_;  ///< of `events_`, what is still to be told
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
