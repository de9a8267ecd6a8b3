#pragma once

#include <cstdint>

#include "server/base/counters.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/replay.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/durable/ended_sessions.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/shard_context.h"
#include "server/session/requests/subscriptions.h"
#include "server/session/requests/wills.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/users/history.h"

namespace pulsegate {

/// Keeps a session's state (MQTT 5.0, 4.1) for the next connection when its connection ends, or
/// discards it. It knows the recently discarded sessions, and owns nothing else; it belongs to the
/// shard's thread.
class SessionKeeper {
public:
    SessionKeeper(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
                  FanOut& fan_out, Subscriptions& subscriptions, Wills& wills)
        : sessions_(tables.sessions),
          inboxes_(delivery.inboxes),
          rooms_(delivery.rooms),
          room_logs_(delivery.room_logs),
          shared_(delivery.shared),
          subscriptions_(subscriptions),
          replay_(delivery.replay),
          fan_out_(fan_out),
          packets_(delivery.packets),
          journal_(context.journal),
          wills_(wills),
          history_(context.history),
          counters_(context.counters),
          ended_(context.journal) {
        inboxes_.end_by([this](User& user, Millis now) { end_inbox_if_done(user, now); },
                        [this](Session& inbox, const char* why, Millis now) {
                            end_disconnected(inbox, why, now);
                        });
    }

    /// The connection ends and the session continues.
    void interrupt(Session& session, Millis now);
    /// The same because the gateway stops: messages of shared subscriptions stay with the session.
    /// Otherwise the last connected member would get all of them.
    void stop(Session& session, Millis now);
    /// The session gets the messages that it missed in its user's rooms, before its absence ends.
    void catch_up(Session& session, Millis now);
    /// The same for the first device of a user: the missed messages go into the user's inbox.
    void first_device_came(User& user, Millis now);
    /// The awaited client of a session is not back after a crash: it is absent from now on.
    void end_awaited(Session& session, Millis now);
    /// The session continues with the client's accepted connection.
    void resume(Session& session, Millis now);

    /// The client starts clean, or the session ends: drops its whole state except the will.
    void discard(Session& session, Millis now);
    /// Could a crash bring back an earlier session of the client with this fingerprint, because the
    /// store does not know that it was discarded?
    bool is_end_uncommitted(std::string_view user, std::string_view client) {
        return ended_.contains(user, client);
    }

    /// The session ends with its connection.
    void end_with_connection(Session& session);
    /// Ends the session of a disconnected client. `why` goes to the log.
    void end_disconnected(Session& session, const char* why, Millis now);
    /// A session of the user may have ended: another device gets the messages that it had from the
    /// inbox. Do not call it while the user's devices are visited.
    void pass_inbox_on(User& user, Millis now);
    /// Ends the inbox of a user who no longer needs it.
    void end_inbox_if_done(User& user, Millis now);

    void store_owner(const Session& session) { store_owner(session, session.state.expiry()); }
    /// Stores the owner with another expiry than the session's.
    void store_owner(const Session& session, std::uint32_t expiry);

    /// The measure of a round's work: subscriptions and messages of the sessions that have ended
    /// since the start.
    std::uint64_t work() const { return work_; }

private:
    void interrupt_exchanges(Session& session, Millis now);
    void end_owner(Session& session, const std::vector<Stamp>& given_back, Millis now);

    SessionTable& sessions_;
    Inboxes& inboxes_;
    Rooms& rooms_;
    RoomLogs& room_logs_;
    SharedSubscriptions& shared_;
    Subscriptions& subscriptions_;
    Replay& replay_;
    FanOut& fan_out_;
    PacketSender& packets_;
    Journal& journal_;
    Wills& wills_;
    History& history_;
    Counters& counters_;
    EndedSessions ended_;
    std::uint64_t work_ = 0;
};

}  // namespace pulsegate
