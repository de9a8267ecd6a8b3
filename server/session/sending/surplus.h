#pragma once

#include <cstddef>

#include "server/session/state/exchanges.h"

namespace pulsegate {

enum class Measure { messages, bytes };

/// Removes messages from the queue until at most `most` is left: the oldest messages of the senders
/// with the most messages in it. They may be many, so they are not removed one by one; each message
/// is examined two or three times.
Queue take_surplus(Exchanges& queue, std::size_t most, Measure measure);

}  // namespace pulsegate
