#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/base/secrets/wiping_allocator.h"

namespace pulsegate {

/// The messages between the two processes of an upgrade, in order; docs/upgrade.md has the steps.
/// The numbers are part of the format.
enum class HandoverStep : std::uint32_t {
    hello = 1,      ///< new to old, JSON: its version and formats
    refused = 2,    ///< new to old: the reason why it can't continue
    lock = 3,       ///< old to new, with the lock of the data folder: the store is closed
    listener = 4,   ///< old to new, with a listening socket: its URL in the settings
    listeners = 5,  ///< old to new: there are no more
    client = 6,     ///< old to new, with its socket: the client's state
    clients = 7,    ///< old to new: there are no more
    ready = 8,      ///< new to old, JSON: how many clients it has
    go = 9,         ///< old to new, JSON: begin to serve
    serving = 10,   ///< new to old, before it does anything else
    gateway = 11,   ///< old to new, before the listeners: data that is only in memory
    history = 12,   ///< old to new, before the clients: some events of users
};

/// The exit status that makes a supervisor start the gateway again.
inline constexpr int start_again = 3;

/// An upgrade can't continue, for this reason.
class HandoverError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The deadline is over.
class HandoverLate : public HandoverError {
    using HandoverError::HandoverError;
};

/// The other process has closed its end, probably because it died.
class OtherEnded : public HandoverError {
    using HandoverError::HandoverError;
};

/// One end of a Unix socket pair between the two processes of an upgrade. It passes messages, each
/// with an optional descriptor. It blocks its thread until a deadline. The caller must wipe secrets
/// in messages that it has sent or received.
class HandoverChannel {
public:
    using Deadline = std::chrono::steady_clock::time_point;

    explicit HandoverChannel(UniqueFd socket) : socket_(std::move(socket)) {}
    /// Makes both ends. They are closed when another program is executed. Throws HandoverError.
    static std::pair<HandoverChannel, UniqueFd> make_pair();

    struct Message {
        HandoverStep step{};
        std::string body{};
        UniqueFd descriptor{};  ///< empty if there was none
    };

    /// The caller still owns `descriptor`; -1: none. Throws HandoverError.
    void send(HandoverStep step, std::string_view body, Deadline deadline, int descriptor = -1);
    /// Throws HandoverError.
    Message receive(Deadline deadline);
    /// Receives the next message, which must be this step. A refusal or another step is a
    /// HandoverError.
    Message expect(HandoverStep step, Deadline deadline);

private:
    void wait(short events, Deadline deadline) const;
    void send_all(std::string_view bytes, Deadline deadline);
    void receive_some(Deadline deadline);
    void receive_all(char* to, std::size_t size, Deadline deadline);
    void take(char* to, std::size_t size);

    UniqueFd socket_;
    // Read ahead, so that a small message takes one system call.
    std::vector<char, WipingAllocator<char>> received_{};  ///< empty until the first message
    std::size_t taken_ = 0, filled_ = 0;  ///< these bytes of it are parts of messages, and wiped
    std::deque<UniqueFd> descriptors_{};  ///< of the messages in `received_`, in order
};

}  // namespace pulsegate
