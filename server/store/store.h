#pragma once

#include <cstdint>
#include <optional>

#include "server/message.h"

namespace pulsegate {

/// Names a session for as long as the process runs.
using SessionId = std::uint64_t;

/// What waits for sessions: one queue for each, the oldest first. It sets no bounds; whoever fills
/// a queue knows how much is in it.
class Store {
public:
    virtual ~Store() = default;

    virtual void push(SessionId session, Delivery delivery) = 0;

    /// Takes the oldest out of the queue; nothing if it is empty.
    virtual std::optional<Delivery> pop(SessionId session) = 0;

    /// Drops the whole queue, for its session has ended.
    virtual void forget(SessionId session) = 0;
};

}  // namespace pulsegate
