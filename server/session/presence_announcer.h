#pragma once

#include "server/session/broker_host.h"
#include "server/session/event_recorder.h"
#include "server/session/fan_out.h"
#include "server/session/presence.h"
#include "server/session/session.h"
#include "server/session/shard_place.h"

namespace pulsegate {

/// Announces presence changes to subscribers of `presence/{user}`, to the record of `--events`, to
/// the log of events and to the store.
/// It owns nothing; it belongs to the shard's thread.
class PresenceAnnouncer {
public:
    PresenceAnnouncer(ShardPlace place, Presence& presence, FanOut& fan_out, Journal& journal,
                      EventRecorder& events, BrokerHost& host)
        : place_(place),
          presence_(presence),
          fan_out_(fan_out),
          journal_(journal),
          events_(events),
          host_(host) {}

    /// The session's client has logged in; or has been `taken_over` by another connection.
    void arrived(Session& session, bool taken_over, Millis now);

    /// The session's client has disconnected or timed out. `last_packet` is the time of its last
    /// packet.
    void departed(Session& session, Cause cause, Millis last_packet, Millis now);

private:
    void announce(const Session& session, Millis silent, Millis now);
    bool is_watched(const User& user) const;

    const ShardPlace place_;
    Presence& presence_;
    FanOut& fan_out_;
    Journal& journal_;
    EventRecorder& events_;
    BrokerHost& host_;
};

}  // namespace pulsegate
