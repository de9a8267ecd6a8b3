#pragma once

#include <cstddef>

#include "server/session/state/exchanges.h"

namespace pulsegate {

enum class Measure { messages, bytes };

/// Takes so many out of the queue that no more than `most` stays: the oldest of those who have most
/// in it. It may be much at once, so it is not done one by one; it examines each message twice or
/// three times.
Queue take_surplus(Exchanges& queue, std::size_t most, Measure measure);

}  // namespace pulsegate
