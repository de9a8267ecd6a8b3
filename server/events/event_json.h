#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/store/ledger/event_log.h"

namespace pulsegate {

/// The unique id of an event, which is also a reader's place in the log: `LOG-NUMBER`.
std::string event_id(std::uint64_t log, EventNumber number);

/// The event with its id and its type.
std::string event_json(std::uint64_t log, const StoredEvent& event);

/// The body of a request to the webhook. `repeat`: the backend may have received some of them
/// before.
std::string batch_json(std::uint64_t log, std::span<const StoredEvent> events, bool repeat);

}  // namespace pulsegate
