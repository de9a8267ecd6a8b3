#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

/// The number of an event, in the order of commits: one more than that of the event before, unless
/// a start had to leave numbers out.
using EventNumber = std::uint64_t;

/// A stored event.
struct StoredEvent {
    EventNumber number = 0;
    std::uint8_t kind = 0;
    std::string body{};
};

/// Some events, and the position up to which the log was searched: continue from there.
struct EventPage {
    std::vector<StoredEvent> events{};
    EventNumber upto = 0;
};

/// An event that the backend refuses.
struct DeadLetter {
    StoredEvent event{};
    WallMillis failed = 0;
    std::string why{};
    bool to_replay = false;
};

/// The state of the log, as of the last commit.
struct EventLogState {
    std::uint64_t log = 0;  ///< a random number of this log
    EventNumber first = 1;  ///< the oldest event that is kept
    EventNumber last = 0;   ///< 0: there was no event yet
    /// Numbers after the first one and up to the second one belong to no events of this log, but
    /// the log may have lost such events after others were told of them.
    EventNumber lost_after = 0, lost_upto = 0;
    EventNumber delivered = 0;  ///< the webhook has all events up to this one
    std::uint64_t waiting = 0;  ///< events that wait for the webhook
    std::size_t bytes = 0;      ///< bytes of the kept events
    std::uint64_t lost = 0;     ///< events deleted before the webhook received them, since the
                                ///< start
    std::size_t dead_letters = 0;
    std::size_t to_replay = 0;  ///< how many of these will be sent again
};

struct EventLogSettings {
    std::size_t max_bytes = 256 * 1024 * 1024;
    std::uint32_t webhook_kinds = 0;  ///< a bit for each kind that the webhook wants
};

}  // namespace pulsegate
