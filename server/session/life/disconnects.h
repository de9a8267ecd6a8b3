#pragma once

#include "server/base/counters.h"
#include "server/session/delivery/dormant_sessions.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/presence_announcer.h"
#include "server/session/durable/journal.h"
#include "server/session/life/session_keeper.h"
#include "server/session/requests/wills.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/answers.h"
#include "server/session/state/session_table.h"
#include "server/session/terms/link.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

/// DISCONNECT (MQTT 5.0, 3.14) and the end of a connection, by either side. It owns nothing;
/// it belongs to the shard's thread.
class Disconnects {
public:
    Disconnects(const BrokerSettings& settings, SessionTable& sessions, DormantSessions& dormant,
                Inboxes& inboxes, Rooms& rooms, PresenceAnnouncer& announcer, Journal& journal,
                Answers& answers, Wills& wills, SessionKeeper& keeper, Counters& counters)
        : settings_(settings),
          sessions_(sessions),
          dormant_(dormant),
          inboxes_(inboxes),
          rooms_(rooms),
          announcer_(announcer),
          journal_(journal),
          answers_(answers),
          wills_(wills),
          keeper_(keeper),
          counters_(counters) {}

    void receive(Session& session, const Disconnect& disconnect);

    /// The client's connection has ended.
    void end(Session& session, const Ending& ending, Millis now);

    /// Publishes that all users are offline, because the gateway stops; connections are still open,
    /// so that subscribers receive it.
    void announce_shutdown(Millis now);

private:
    void leave_to_next_start(const Session& session);

    const BrokerSettings& settings_;
    SessionTable& sessions_;
    DormantSessions& dormant_;
    Inboxes& inboxes_;
    Rooms& rooms_;
    PresenceAnnouncer& announcer_;
    Journal& journal_;
    Answers& answers_;
    Wills& wills_;
    SessionKeeper& keeper_;
    Counters& counters_;
};

}  // namespace pulsegate
