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

/// Passes the sessions of connected clients, with their connections, to the process that takes over
/// in an upgrade. The old process finishes all operations in progress, and describes each session.
/// This changes nothing, so it can continue if the new process fails. The new process gets the
/// stored data from the store, and adopts the rest. Clients notice nothing.
///
/// It only owns the list of adopted sessions; it belongs to the shard's thread.
class SessionPassage {
public:
    SessionPassage(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
                   const RequestParts& requests, FanOut& fan_out, DelayedPublishing& delayed,
                   SessionKeeper& keeper);

    // Call these in the old process:

    /// Stores everything that is in flight. Call it until it returns true, when nothing is in
    /// progress. Clients are not read meanwhile.
    [[nodiscard]] bool settle(Millis now);
    /// The store was closed and opened again in the meantime.
    void store_reopened() { delayed_.forget_taken(); }
    /// Undoes `settle`: the process continues.
    void go_on();
    /// Describes the session of a client that is logged in.
    SessionRecord describe(const Session& session, Millis now) const;

    // Call these in the new process, after it is restored and before the shard runs:

    /// Continues the session with this link. Returns false if that is not possible; then the client
    /// must log in again.
    [[nodiscard]] bool adopt(const SessionRecord& record, Link& link, Millis now);
    /// Call it when all sessions are adopted. They get their waiting messages when their links have
    /// sent everything.
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
    PacketSender& packets_;
    Authorizations& authorizations_;
    Subscriptions& subscriptions_;
    FanOut& fan_out_;
    DelayedPublishing& delayed_;
    SessionKeeper& keeper_;
    Journal& journal_;
    Receipts& receipts_;
    const Counters& counters_;
    std::optional<std::uint64_t>
        kept_logins_;  ///< logins at the last call of `keep_passing_sessions`; nothing: no session
                       ///< is kept
    std::vector<Session*> adopted_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
