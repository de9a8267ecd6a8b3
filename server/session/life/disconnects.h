#pragma once

#include "server/base/counters.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/packed_sessions.h"
#include "server/session/delivery/presence_announcer.h"
#include "server/session/delivery/replay.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/shard_context.h"
#include "server/session/life/session_keeper.h"
#include "server/session/requests/wills.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/answers.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/terms/link.h"
#include "server/session/terms/settings.h"
#include "server/session/users/history.h"

namespace pulsegate {

/// DISCONNECT (MQTT 5.0, 3.14) and the end of a connection, by either side. It owns nothing;
/// it belongs to the shard's thread.
class Disconnects {
public:
    Disconnects(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
                PresenceAnnouncer& announcer, Wills& wills, SessionKeeper& keeper)
        : settings_(context.settings),
          sessions_(tables.sessions),
          packed_(delivery.packed),
          inboxes_(delivery.inboxes),
          rooms_(delivery.rooms),
          replay_(delivery.replay),
          announcer_(announcer),
          journal_(context.journal),
          history_(context.history),
          answers_(delivery.packets.answers()),
          wills_(wills),
          keeper_(keeper),
          counters_(context.counters) {}

    void receive(Session& session, const Disconnect& disconnect);

    /// The client's connection has ended.
    void end(Session& session, const Ending& ending, Millis now);

    /// Publishes that all users are offline, because the gateway stops; connections are still open,
    /// so that subscribers receive it.
    void announce_shutdown(Millis now);

private:
    void tell_history(const Session& session, const Ending& ending, Millis now);
    void leave_to_next_start(const Session& session);
    void end_surplus(Session& session, Millis now);

    const BrokerSettings& settings_;
    SessionTable& sessions_;
    PackedSessions& packed_;
    Inboxes& inboxes_;
    Rooms& rooms_;
    Replay& replay_;
    PresenceAnnouncer& announcer_;
    Journal& journal_;
    History& history_;
    Answers& answers_;
    Wills& wills_;
    SessionKeeper& keeper_;
    Counters& counters_;
};

}  // namespace pulsegate
