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

/// Messages to `inbox/{user}` that arrive while the user has no session. They wait for the first
/// device that logs in. An inbox is a session without a client and a client id, so it has the
/// queue, the expiry and the place in the store of a session. The waiting messages are handed out
/// to the device: messages that it has not acknowledged when its session ends go back. So an inbox
/// does not end before its user's last session. Inboxes are charged to the senders of their
/// messages. It belongs to the shard's thread.
class Inboxes {
public:
    Inboxes(const ShardContext& context, const Tables& tables, PacketSender& packets);
    ~Inboxes();
    Inboxes(const Inboxes&) = delete;
    Inboxes& operator=(const Inboxes&) = delete;

    /// Ends the user's inbox if it is no longer needed.
    using EndIfDone = std::function<void(User&, Millis)>;
    /// Ends an inbox with all its messages.
    using End = std::function<void(Session&, const char* why, Millis)>;
    void end_by(EndIfDone end_if_done, End end) {
        end_if_done_ = std::move(end_if_done);
        end_ = std::move(end);
    }

    struct Found {
        Session* inbox = nullptr;
        bool has_room = true;                         ///< false: a limit is reached
        std::optional<InboxAccounts::Claim> claim{};  ///< until the message is in the inbox
    };
    /// The inbox for this message to the user with this name (null: the user does not exist yet).
    /// Creates the inbox if necessary. Returns no inbox if the user has a device.
    Found receiver(std::string_view name, const User* user, const Message& message, Millis now);

    /// The inbox of a user at the login of the first device, for messages promised before.
    /// Creates the inbox if necessary, whatever the limits, because the login depends on it.
    Session& open(User& user, Millis now);

    /// A device has logged in: it gets the waiting messages, before all later messages.
    void hand_out(User& user, Millis now);
    /// The same, but sends nothing. Returns the session that has them now, or null.
    Session* move_to_device(User& user, Millis now);
    /// Removes the messages with these ascending stamps from the user's inbox, because a device has
    /// them.
    void take_out(const User& user, const std::vector<std::uint64_t>& stamps);
    /// The session of a device ends: its messages from the inbox go back there.
    void return_messages_of(Session& session, Millis now);
    /// Restarts the inbox's expiry, as a new message does.
    void begin_anew(Session& inbox, Millis now);
    /// The inbox of the user if it is no longer needed: it is empty, and no device has messages
    /// from it. Otherwise null.
    Session* done(const User& user) const;
    /// Is this an inbox from which a device has messages? It must not end: they may come back.
    bool has_handed_out(const Session& session) const;

    /// Ends the inbox of the user if it is no longer needed.
    void end_if_done(User& user, Millis now) { end_if_done_(user, now); }

    /// Finds the sender whose messages use most memory on this shard; see InboxSenders.
    [[nodiscard]] bool find_largest(InboxSenders::Search& search, bool with_bodies) const {
        return senders_.find_largest(search, with_bodies);
    }
    /// Drops the oldest messages of that sender: half of them, or as many as one round allows.
    void drop_some(const InboxSenders::Largest& largest, const char* why, Millis now);

    /// Call it after a restart, before its messages are restored.
    void restore(Session& inbox);
    /// Call it when its messages and those of the devices are restored: what the store has for both
    /// was sent to the device, which has not confirmed it.
    void find_handed_out(Session& inbox);
    /// The inbox ends.
    void forget(Session& inbox);

    std::uint64_t work() const { return senders_.work() + work_; }

private:
    Session* find(const User& user) const;
    std::optional<Limit> limit_reached(Found& found, const User* user, const Message& message);
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
    PacketSender& packets_;
    Journal& journal_;
    Counters& counters_;
    InboxSenders senders_;
    boost::unordered_flat_map<const Outbox*, Session*> inboxes_;  ///< inboxes by their outboxes
    EndIfDone end_if_done_;
    End end_;
    Tick ended_expired_ = 0;            ///< when expired inboxes were last ended
    const Outbox* examined_ = nullptr;  ///< the last inbox that this has examined
    std::uint64_t work_ = 0;
};

}  // namespace pulsegate
