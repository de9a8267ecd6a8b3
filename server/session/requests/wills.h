#pragma once

#include <memory>

#include "server/base/counters.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/durable/journal.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/delayed_publishing.h"
#include "server/session/rooms/rooms.h"
#include "server/session/state/session.h"

namespace pulsegate {

/// The wills of clients (MQTT 5.0, 3.1.2.5): stores them with their sessions, and publishes them.
/// Other parts know when a will is due. It owns nothing; it belongs to the shard's thread.
class Wills {
public:
    Wills(const Authorizations& authorizations, const Rooms& rooms, FanOut& fan_out,
          DelayedPublishing& delayed, Journal& journal, Counters& counters)
        : authorizations_(authorizations),
          rooms_(rooms),
          fan_out_(fan_out),
          delayed_(delayed),
          journal_(journal),
          counters_(counters) {}

    /// Sets the will of the session; null removes it.
    void keep(Session& session, std::unique_ptr<StoredWill> will);
    /// Publishes the will of the session, if it has one that may still be published.
    void publish(Session& session, Millis now);

private:
    bool may_publish(const Session& session, const StoredWill& will) const;

    const Authorizations& authorizations_;
    const Rooms& rooms_;
    FanOut& fan_out_;
    DelayedPublishing& delayed_;
    Journal& journal_;
    Counters& counters_;
};

}  // namespace pulsegate
