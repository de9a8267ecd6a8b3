#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "server/routing/router.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/replay.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/durable/shard_context.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/unstored_subscriptions.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/memory_limits.h"
#include "server/session/state/tables.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/session_id.h"
#include "server/session/terms/settings.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Handles SUBSCRIBE and UNSUBSCRIBE (MQTT 5.0, 3.8 and 3.10), and ends subscriptions that the
/// rules no longer allow. It belongs to the shard's thread.
class Subscriptions {
public:
    Subscriptions(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
                  const Authorizations& authorizations, const MemoryLimits& memory)
        : settings_(context.settings),
          authorizations_(authorizations),
          presence_(tables.presence),
          memory_(memory),
          rooms_(delivery.rooms),
          router_(tables.router),
          shared_(delivery.shared),
          replay_(delivery.replay),
          packets_(delivery.packets),
          answers_(delivery.packets.answers()),
          journal_(context.journal),
          receipts_(context.receipts),
          counters_(context.counters) {}

    void receive(Session& session, const Subscribe& request, Millis now);
    void receive(Session& session, const Unsubscribe& request);

    /// The session had this subscription in another process, and was sent its retained messages.
    void adopt(Session& session, const PutSubscription& subscription) {
        enter(session, subscription);
    }
    /// The session had this subscription before a restart.
    void restore(Session& session, const PutSubscription& subscription);
    void reserve(std::size_t subscriptions) { router_.reserve(subscriptions); }

    /// The session ends, or starts from the beginning.
    void end_all(Session& session);

    /// Ends the subscriptions that the client's rules no longer allow, and drops waiting messages
    /// that it may no longer read.
    void judge(Session& session, Millis now);

    /// The gateway's rules have changed: `judge_some` begins with the first client.
    void judge_all() { judged_ = Judged{}; }
    /// Checks some of the connected clients. Other clients are checked when they log in. Returns
    /// true if there are more.
    [[nodiscard]] bool judge_some(Millis now);

private:
    /// The maximum number of filters in one packet.
    std::size_t most_filters() const {
        return std::max<std::size_t>(settings_.max_subscriptions, 1000);
    }
    std::optional<Refusal> objection(Session& session, std::string_view filter) const;
    /// A SUBSCRIBE that is being handled.
    struct Request {
        std::uint32_t identifier;
        UnstoredSubscriptions::Packet packet;
        PendingReceipt receipt;
        std::vector<const SubscribeFilter*> to_replay{};  ///< retained messages must be sent
    };
    Reason subscribe(Session& session, const SubscribeFilter& wanted, Request& request);
    UnstoredSubscriptions::Former terms_of(const Session& session, std::string_view filter) const;
    void undo_if_refused(ReceiptId receipt, UnstoredSubscriptions::Packet packet);
    void restore(Session& session, const std::string& filter,
                 const UnstoredSubscriptions::Former& former);
    bool unsubscribe(Session& session, std::string_view filter);
    bool enter(Session& session, const PutSubscription& subscription);
    /// The progress of the check.
    struct Judged {
        PresencePosition users{};  ///< all clients of these users are checked
        SessionId client = 0;      ///< of the next user, the clients up to this one are checked
    };
    bool judge_some(User& user, std::uint64_t& work, Millis now);
    std::vector<Session*> to_judge(User& user) const;
    void count_refused(const Session& session, std::string_view filter, const Refusal& refusal);

    const BrokerSettings& settings_;
    const Authorizations& authorizations_;
    const Presence& presence_;
    const MemoryLimits& memory_;
    const Rooms& rooms_;
    Router& router_;
    SharedSubscriptions& shared_;
    Replay& replay_;
    PacketSender& packets_;
    Answers& answers_;
    Journal& journal_;
    Receipts& receipts_;
    Counters& counters_;
    UnstoredSubscriptions unstored_;
    std::optional<Judged> judged_;  ///< nothing: no client is left to check
};

}  // namespace pulsegate
