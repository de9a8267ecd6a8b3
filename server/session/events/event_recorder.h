#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/packet.h"
#include "protocol/reason.h"
#include "server/base/counters.h"
#include "server/base/log.h"
#include "server/events/event_kind.h"
#include "server/limits/recent_counts.h"
#include "server/message/message.h"
#include "server/session/durable/journal.h"
#include "server/session/state/session.h"
#include "server/session/terms/link.h"
#include "server/session/terms/settings.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Writes events for backends to the log of events, as JSON. It writes only kinds of events that a
/// reader wants. Peers can cause some kinds at will, so these have a budget; events beyond it are
/// counted, but not written. It belongs to the shard's thread.
class EventRecorder {
public:
    EventRecorder(const BrokerSettings& settings, Journal& journal, Counters& counters)
        : settings_(settings), journal_(journal), counters_(counters) {}

    bool wants(EventKind kind) const { return settings_.recorded_events & kinds_of(kind); }

    /// Adds the event to the same unit as the user's other operations of this round.
    void presence(const PresenceChange& change);

    /// The session's client has logged in.
    void login(const Session& session, bool resumed);

    void refused(std::string_view peer, const Connect& connect, Reason reason,
                 std::string_view why);

    /// Does the sender's budget have room for another event about a waiting message? If not, the
    /// number of waiting messages is not needed either.
    bool may_tell_waiting(const Message& message, Millis now);
    void withhold() { ++counters_.events_withheld; }
    /// A message waits for an absent user; it is one of `waiting` messages. `part` is held until
    /// the event is stored.
    void message_waiting(const Message& message, std::string_view to, std::size_t waiting,
                         PartRef part, Millis now);

private:
    static std::uint64_t causer_of(const Message& message);
    void add(EventKind kind, std::string body, bool is_promised = false);

    const BrokerSettings& settings_;
    Journal& journal_;
    Counters& counters_;
    LineBudget refusals_;
    RecentCounts<std::uint64_t> causers_;  ///< of waiting messages, by their sender's fingerprint
};

}  // namespace pulsegate
