#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "server/session/delivery/event_recorder.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/durable/broker_host.h"
#include "server/session/state/session.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Announces presence changes to subscribers of `presence/{user}`, to the record of `--events`, to
/// the log of events and to the store.
///
/// The store gets them lazily. After a crash it need not know a user's latest change: subscribers
/// are told of everybody again, with versions above all that they have seen. But it must know the
/// user, or nothing would tell them that it is offline: so they are told of a new user when its
/// first row is on disk. It belongs to the shard's thread.
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

    /// The session's client has logged in, or has taken the session over from the one that is here.
    void arrived(Session& session, Millis now);

    /// The session's client has disconnected or timed out. `last_packet` is the time of its last
    /// packet.
    void departed(Session& session, Cause cause, Millis last_packet, Millis now);

    /// Announces new users when their first row is on disk.
    void tell_of_new_users(Millis now);

private:
    void announce(const Session& session, Millis silent, Millis now);
    void tell_when_stored(User& user, Millis now);
    void tell(const User& user, Millis now);
    bool is_watched(const User& user) const;

    const ShardPlace place_;
    Presence& presence_;
    FanOut& fan_out_;
    Journal& journal_;
    EventRecorder& events_;
    BrokerHost& host_;

    struct NewUser {
        std::uint64_t unit;  ///< of the journal, with its first row
        std::string name;
        MessageRef online;  ///< that it is; null if nobody watched it then
    };
    std::deque<NewUser> new_users_;  ///< as long as what the journal holds
};

}  // namespace pulsegate
