#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// What the two processes of an upgrade say to each other, in the order in which it comes;
/// docs/upgrade.md has the steps. The numbers are part of the format.
enum class HandoverStep : std::uint32_t {
    hello = 1,      ///< new to old, JSON: its version and formats
    refused = 2,    ///< new to old: why it can't go on
    lock = 3,       ///< old to new, with the lock of the data folder: the store is closed
    listener = 4,   ///< old to new, with a listening socket: the URL that it was asked for by
    listeners = 5,  ///< old to new: those were all
    client = 6,     ///< old to new, with its socket: the client's state
    clients = 7,    ///< old to new: those were all
    ready = 8,      ///< new to old, JSON: how many clients it has
    go = 9,         ///< old to new, JSON: serve
    serving = 10,   ///< new to old, before it does anything
    gateway = 11,   ///< old to new, before the listeners: what it has in memory only
    history = 12,   ///< old to new, before the clients: some events of users
};

/// The exit status that has a supervisor start the gateway.
inline constexpr int start_again = 3;

/// An upgrade that can't go on, and why.
class HandoverError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The other process has closed its end, by dying, most likely.
class OtherEnded : public HandoverError {
    using HandoverError::HandoverError;
};

/// One end of a Unix socket pair between the two processes of an upgrade. It passes messages, and
/// a descriptor with each if asked to. It blocks its thread, until a deadline. The caller wipes
/// what is secret in what it has sent or received.
class HandoverChannel {
public:
    using Deadline = std::chrono::steady_clock::time_point;

    explicit HandoverChannel(UniqueFd socket) : socket_(std::move(socket)) {}
    /// Both ends; they are closed when another program is executed. Throws HandoverError.
    static std::pair<HandoverChannel, UniqueFd> make_pair();

    struct Message {
        HandoverStep step{};
        std::string body{};
        UniqueFd descriptor{};  ///< empty if none came along
    };

    /// `descriptor` stays the caller's; -1: none. Throws HandoverError.
    void send(HandoverStep step, std::string_view body, Deadline deadline, int descriptor = -1);
    /// Throws HandoverError.
    Message receive(Deadline deadline);
    /// The next message, which must be this one: a refusal, or another one, is a HandoverError.
    Message expect(HandoverStep step, Deadline deadline);

    int descriptor() const { return socket_.get(); }

private:
    void wait(short events, Deadline deadline) const;
    void send_all(std::string_view bytes, Deadline deadline);
    void receive_all(char* to, std::size_t size, Deadline deadline);

    UniqueFd socket_;
};

}  // namespace pulsegate
