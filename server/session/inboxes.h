#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "server/base/counters.h"
#include "server/session/journal.h"
#include "server/session/packet_sender.h"
#include "server/session/presence.h"
#include "server/session/session_table.h"
#include "server/session/settings.h"
#include "server/session/shard_place.h"

namespace pulsegate {

/// What is sent to `inbox/{user}` while the user has no session: it waits for the first device that
/// logs in. An inbox is a session without a client and without a client id, so its queue, its
/// expiry and its place in the store are those of sessions. A device is lent what waits: what it
/// has not acknowledged when its session ends goes back. So an inbox does not end before its user's
/// last session. It counts the inboxes of one shard, and who has caused them; it belongs to the
/// shard's thread.
class Inboxes {
public:
    Inboxes(const BrokerSettings& settings, ShardPlace place, SessionTable& sessions,
            Presence& presence, PacketSender& sender, Journal& journal, Counters& counters)
        : settings_(settings),
          place_(place),
          sessions_(sessions),
          presence_(presence),
          sender_(sender),
          journal_(journal),
          counters_(counters) {}

    /// Ends the user's inbox if it is needed no more.
    using EndIfDone = std::function<void(User&, Millis)>;
    void end_by(EndIfDone end_if_done) { end_if_done_ = std::move(end_if_done); }

    /// The creator of inboxes that rooms need.
    static constexpr std::uint64_t by_rooms = 1;

    struct Place {
        Session* inbox = nullptr;
        bool has_room = true;  ///< false: another inbox would be needed, and there is no room
    };
    /// Who receives a message to the user of this name (null: there is none yet), if there is no
    /// device; nobody if there is one. `creator`: a fingerprint of who is to blame for the inbox,
    /// 0 for the gateway, or `by_rooms`.
    Place receiver(std::string_view name, const User* user, std::uint64_t creator, Millis now);

    /// The inbox of a user whose first device logs in, made if need be: for what has been promised
    /// already. No limit refuses it, for it has come with a login, and is of no use without.
    Session& open(User& user, std::uint64_t creator, Millis now);

    /// A device has logged in: it gets what waits, before all that comes meanwhile.
    void lend(User& user, Millis now);
    /// The session of a device ends.
    void take_back(Session& session, Millis now);
    /// The inbox has as much time as if a message had come now.
    void begin_anew(Session& inbox, Millis now);
    /// The inbox of the user if it is needed no more: it is empty, and nothing of it is lent. Else
    /// null.
    Session* done(const User& user) const;

    /// After a restart; `creator` is the client of its PutOwner.
    void restore(Session& inbox, std::string_view creator);
    /// The inbox ends.
    void forget(Session& inbox);

private:
    Session* find(const User& user) const;
    Session* create_if_room(std::string_view name, std::uint64_t creator, Millis now);
    Session& create(User& user, std::uint64_t creator);
    std::optional<Limit> reached_limit(std::uint64_t creator) const;
    void end_expired(Millis now);
    void count(Session& inbox, std::uint64_t creator);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    SessionTable& sessions_;
    Presence& presence_;
    PacketSender& sender_;
    Journal& journal_;
    Counters& counters_;
    /// Who has sent the first message: a fingerprint of the user, or 0.
    boost::unordered_flat_map<Session*, std::uint64_t> creators_;
    boost::unordered_flat_map<std::uint64_t, std::size_t> created_;
    EndIfDone end_if_done_;
    Tick ended_expired_ = 0;  ///< when it was done last
};

}  // namespace pulsegate
