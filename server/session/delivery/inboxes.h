#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/counters.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/shard_context.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/gateway_totals.h"
#include "server/session/users/inbox_senders.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// What is sent to `inbox/{user}` while the user has no session: it waits for the first device that
/// logs in. An inbox is a session without a client and without a client id, so its queue, its
/// expiry and its place in the store are those of sessions. A device is lent what waits: what it
/// has not acknowledged when its session ends goes back. So an inbox does not end before its user's
/// last session. Inboxes are charged to those who have messages in them; it belongs to the shard's
/// thread.
class Inboxes {
public:
    Inboxes(const ShardContext& context, const Tables& tables, PacketSender& sender);
    ~Inboxes();
    Inboxes(const Inboxes&) = delete;
    Inboxes& operator=(const Inboxes&) = delete;

    /// Ends the user's inbox if it is needed no more.
    using EndIfDone = std::function<void(User&, Millis)>;
    /// Ends an inbox with all that waits in it.
    using End = std::function<void(Session&, const char* why, Millis)>;
    void end_by(EndIfDone end_if_done, End end) {
        end_if_done_ = std::move(end_if_done);
        end_ = std::move(end);
    }

    struct Place {
        Session* inbox = nullptr;
        bool has_room = true;                         ///< false: a limit is reached
        std::optional<InboxAccounts::Claim> claim{};  ///< until the message is in the inbox
    };
    /// The inbox of the user of this name (null: there is none yet) for this message, made if need
    /// be; none if there is a device.
    Place receiver(std::string_view name, const User* user, const Message& message, Millis now);

    /// The inbox of a user whose first device logs in, made if need be: for what has been promised
    /// already. No limit refuses it, for it has come with a login, and is of no use without.
    Session& open(User& user, Millis now);

    /// A device has logged in: it gets what waits, before all that comes meanwhile.
    void lend(User& user, Millis now);
    /// Takes the messages with these stamps, ascending, out of the user's inbox: a device has them.
    void take_out(const User& user, const std::vector<std::uint64_t>& stamps);
    /// The session of a device ends.
    void take_back(Session& session, Millis now);
    /// The inbox has as much time as if a message had come now.
    void begin_anew(Session& inbox, Millis now);
    /// The inbox of the user if it is needed no more: it is empty, and nothing of it is lent. Else
    /// null.
    Session* done(const User& user) const;

    /// Ends the inbox of the user if it is needed no more.
    void end_if_done(User& user, Millis now) { end_if_done_(user, now); }

    /// Looks for the user whose messages take most on this shard; see InboxSenders.
    [[nodiscard]] bool find_largest(InboxSenders::Search& search, bool with_bodies) const {
        return senders_.find_largest(search, with_bodies);
    }
    /// Drops the oldest messages of that user, half of them or a turn's worth, because there is too
    /// little room.
    void drop_some(const InboxSenders::Largest& largest, const char* why, Millis now);

    /// After a restart, before its messages.
    void restore(Session& inbox);
    /// The inbox ends.
    void forget(Session& inbox);

    std::uint64_t work() const { return senders_.work() + work_; }

private:
    Session* find(const User& user) const;
    std::optional<Limit> limit_reached(Place& place, const User* user, const Message& message);
    void refuse(std::string_view name, Limit limit);
    std::optional<Limit> open_one(std::string_view name, InboxSenders::Sender sender, Millis now);
    bool may_grow(InboxSenders::Sender sender) const;
    bool make_place(InboxSenders::Sender sender, Limit limit, Millis now);
    Session& create(User& user);
    void enter(Session& inbox);
    void end_expired(Millis now);
    void end_expired_of(InboxSenders::Sender sender, Millis now);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    const BrokerHost& host_;
    InboxAccounts& accounts_;
    SessionTable& sessions_;
    Presence& presence_;
    PacketSender& sender_;
    Journal& journal_;
    Counters& counters_;
    InboxSenders senders_;
    boost::unordered_flat_map<const Outbox*, Session*> inboxes_;  ///< by their outboxes
    EndIfDone end_if_done_;
    End end_;
    Tick ended_expired_ = 0;            ///< when it was done last
    const Outbox* examined_ = nullptr;  ///< by it, the last one
    std::uint64_t work_ = 0;
};

}  // namespace pulsegate
