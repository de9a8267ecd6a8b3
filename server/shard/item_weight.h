#pragma once

#include <cstddef>

#include "server/message/message.h"
#include "server/session/durable/own_messages.h"
#include "server/session/durable/shard_messages.h"

namespace pulsegate {

/// Approximate bytes of an item in a shard's mailbox: the message that it keeps in memory, and some
/// bookkeeping.
std::size_t weight_of(const MessageRef& message);
std::size_t weight_of(const ShardMessage& message);
std::size_t weight_of(const LedgerAnswer& answer);

/// For all other items, which keep no message.
inline constexpr std::size_t bookkeeping_weight = 256;

/// The most bytes that may wait for a shard before clients that send messages to it are no longer
/// read.
inline constexpr std::size_t most_weight_waiting = 4 * 1024 * 1024;

}  // namespace pulsegate
