#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

/// The number of an event: one more than that of the event before, in the order of commits.
using EventNumber = std::uint64_t;

/// An event as it is stored.
struct StoredEvent {
    EventNumber number = 0;
    std::uint8_t kind = 0;
    std::string body{};
};

/// Some events, and up to where the log was searched for them: the place to go on from.
struct EventPage {
    std::vector<StoredEvent> events{};
    EventNumber upto = 0;
};

/// An event that the backend does not take.
struct DeadLetter {
    StoredEvent event{};
    WallMillis failed = 0;
    std::string why{};
    bool to_replay = false;
};

/// How the log stands, as of the last commit.
struct EventLogState {
    std::uint64_t log = 0;      ///< drawn when the log was made: another log has another
    EventNumber first = 1;      ///< the oldest that is kept
    EventNumber last = 0;       ///< 0: there was none yet
    EventNumber delivered = 0;  ///< the webhook has all up to this one
    std::uint64_t waiting = 0;  ///< that the webhook is to be told of
    std::size_t bytes = 0;      ///< of those that are kept
    std::uint64_t lost = 0;     ///< deleted before the webhook had them, since the start
    std::size_t dead_letters = 0;
    std::size_t to_replay = 0;  ///< of these
};

struct EventLogSettings {
    std::size_t max_bytes = 256 * 1024 * 1024;
    std::uint32_t webhook_kinds = 0;  ///< a bit for each kind that the webhook wants
};

}  // namespace pulsegate
