#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "server/session/delivery/fan_out.h"
#include "server/session/durable/broker_host.h"
#include "server/session/events/event_recorder.h"
#include "server/session/state/session.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Announces presence changes to subscribers of `presence/{user}`, to the record of `--events`, to
/// the log of events and to the store.
///
/// The store gets them lazily. After a crash, it need not know a user's latest change, because
/// subscribers get every user's presence again, with higher versions than before. But it must know
/// the user. Otherwise subscribers would never learn that the user is offline. So they are told
/// about a new user only when the user's first row is on disk. It belongs to the shard's thread.
///
/// If a user is awaited after a crash or a drain and is back in time, the user was never offline,
/// and nobody is told anything.
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

    /// The session's client has logged in, or has taken over the session of the client that is
    /// connected.
    void arrived(Session& session, Millis now);

    /// The facts about a connection that has ended.
    struct Ended {
        Cause cause;
        Millis last_packet;  ///< the time of its last packet
        Millis limit;        ///< its limit of silence
    };
    void departed(Session& session, const Ended& ended, Millis now);

    /// Announces some awaited users who are not back in time as offline. Returns true if there are
    /// more.
    [[nodiscard]] bool lose_awaited(Millis now);
    /// Announces all awaited users as offline, because the gateway stops.
    void end_awaited(Millis now);

    /// Announces new users when their first row is on disk.
    void tell_of_new_users(Millis now);

private:
    void announce(const User& user, const std::string& client, Millis silent, Millis now);
    bool end_awaited(Tick upto, std::size_t most, Cause cause, Millis now);
    void store(const User& user);
    void store(const User& user, std::uint32_t limit);
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
        std::uint64_t unit;  ///< the journal's unit with the user's first row
        std::string name;
        MessageRef
            online;  ///< the message that the user is online; null if the user had no watchers
    };
    std::deque<NewUser> new_users_;  ///< bounded by the content of the journal
};

}  // namespace pulsegate
