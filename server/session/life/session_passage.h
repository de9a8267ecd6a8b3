#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/durable/shard_context.h"
#include "server/session/life/session_keeper.h"
#include "server/session/requests/delayed_publishing.h"
#include "server/session/requests/request_parts.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/upgrade/client_record.h"

namespace pulsegate {

/// How the sessions of connected clients pass from a process to the one that takes its place in an
/// upgrade, with their connections. The first one settles what is under way, and describes each
/// session; it changes nothing then, so that it can go on should the other one fail. The second one
/// has what is stored from the store, and adopts the rest: to the client, nothing has happened.
///
/// It owns nothing but the knowledge who was adopted; it belongs to the shard's thread.
class SessionPassage {
public:
    SessionPassage(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
                   const RequestParts& requests, FanOut& fan_out, DelayedPublishing& delayed,
                   SessionKeeper& keeper);

    // In the process that ends:

    /// Has the store know all that is in flight. To be called until nothing is under way: true.
    /// Clients are not read meanwhile.
    [[nodiscard]] bool settle(Millis now);
    /// Takes that back: the process goes on.
    void go_on();
    /// Of a client that is logged in.
    SessionRecord describe(const Session& session, Millis now) const;

    // In the process that begins, when it is restored, and before the shard runs:

    /// The session goes on with this link. False: it can't, and the client has to log in again.
    [[nodiscard]] bool adopt(const SessionRecord& record, Link& link, Millis now);
    /// All that were to be adopted are: has them sent what waits for them.
    void finish(Millis now);

private:
    void keep_passing_sessions(std::uint32_t least_expiry);
    DeliveryRecord describe(const Session& session, const Outbox::InFlight& sent, bool waits,
                            Millis now) const;
    Session* find_or_create(const SessionRecord& record);
    void attach(Session& session, const SessionRecord& record, Link& link);
    void adopt_queue(Session& session, const SessionRecord& record, Millis now);
    void adopt_in_flight(Session& session, const SessionRecord& record, Millis now);

    const ShardPlace place_;
    SessionTable& sessions_;
    Presence& presence_;
    Inboxes& inboxes_;
    Rooms& rooms_;
    SharedSubscriptions& shared_;
    Replay& replay_;
    PacketSender& sender_;
    Authorizations& authorizations_;
    Subscriptions& subscriptions_;
    FanOut& fan_out_;
    DelayedPublishing& delayed_;
    SessionKeeper& keeper_;
    Journal& journal_;
    Receipts& receipts_;
    const Counters& counters_;
    std::optional<std::uint64_t> kept_logins_;  ///< nothing: nobody passes
    std::vector<Session*> adopted_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
