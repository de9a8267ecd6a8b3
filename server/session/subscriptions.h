#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "server/routing/router.h"
#include "server/session/authorizations.h"
#include "server/session/packet_sender.h"
#include "server/session/refusal.h"
#include "server/session/replay.h"
#include "server/session/settings.h"
#include "server/session/shared_subscriptions.h"

namespace pulsegate {

/// Handles SUBSCRIBE and UNSUBSCRIBE (MQTT 5.0, 3.8 and 3.10). It owns nothing; it belongs to the
/// shard's thread.
class Subscriptions {
public:
    Subscriptions(const BrokerSettings& settings, const Authorizations& authorizations,
                  Router& router, SharedSubscriptions& shared, Replay& replay, PacketSender& sender,
                  Counters& counters)
        : settings_(settings),
          authorizations_(authorizations),
          router_(router),
          shared_(shared),
          replay_(replay),
          sender_(sender),
          counters_(counters) {}

    void receive(Session& session, const Subscribe& request, Millis now);
    void receive(Session& session, const Unsubscribe& request);

private:
    std::optional<Refusal> objection(Session& session, std::string_view filter) const;
    Reason subscribe(Session& session, const SubscribeFilter& wanted, std::uint32_t identifier,
                     std::vector<const SubscribeFilter*>& to_replay);
    void count_refused(const Session& session, std::string_view filter, const Refusal& refusal);

    const BrokerSettings& settings_;
    const Authorizations& authorizations_;
    Router& router_;
    SharedSubscriptions& shared_;
    Replay& replay_;
    PacketSender& sender_;
    Counters& counters_;
};

}  // namespace pulsegate
