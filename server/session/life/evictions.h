#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "server/base/counters.h"
#include "server/routing/retained.h"
#include "server/routing/router.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/durable/shard_context.h"
#include "server/session/life/expired_messages.h"
#include "server/session/life/holder_search.h"
#include "server/session/life/session_keeper.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/request_parts.h"
#include "server/session/requests/wills.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/memory_limits.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/terms/eviction.h"
#include "server/session/terms/settings.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Ends sessions and disconnects clients: expired sessions, clients with a login that is no longer
/// valid, clients that the HTTP API disconnects, and the largest users when memory or the disk is
/// short. It owns nothing; it belongs to the shard's thread.
class Evictions {
public:
    Evictions(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
              const RequestParts& requests, const FanOut& fan_out, ExpiredMessages& expired,
              SessionKeeper& keeper)
        : settings_(context.settings),
          place_(context.place),
          sessions_(tables.sessions),
          presence_(tables.presence),
          inboxes_(delivery.inboxes),
          room_logs_(delivery.room_logs),
          authorizations_(requests.authorizations),
          memory_(requests.memory),
          router_(tables.router),
          retained_(tables.retained),
          packets_(delivery.packets),
          fan_out_(fan_out),
          expired_(expired),
          journal_(context.journal),
          wills_(requests.wills),
          keeper_(keeper),
          counters_(context.counters) {}

    /// Disconnects clients, and ends their sessions if asked, a limited number of them. The rest is
    /// left for another round.
    Evicted evict(const Eviction& eviction, Millis now);

    /// The valid lines of the password file have changed: begins to disconnect the clients that
    /// logged in with a line that is no longer valid.
    void end_invalid_logins() {
        if (sessions_.connected() == 0) return;  // and the shard may not run yet
        judged_logins_ = PresencePosition{};
        judge_logins();
    }

    /// Ends sessions that are due or exceed a quota, publishes wills that are due, and disconnects
    /// clients with a login that is no longer valid, a limited number of them. Returns true if
    /// there are more.
    [[nodiscard]] bool expire(Millis now);

private:
    /// The maximum number of sessions that end in one round of the loop, possibly with a will. The
    /// others wait for the next round. The number is lower if they have very many subscriptions and
    /// messages, or if very many clients get their wills.
    static constexpr std::size_t sessions_a_turn = 64;
    static constexpr std::uint64_t work_of_ends = 2048;  ///< half of what a round has
    std::uint64_t work() const { return keeper_.work() + router_.work() + fan_out_.work(); }
    bool is_used_up(std::uint64_t began_at) const { return work() - began_at >= work_of_ends; }

    bool end_due(Millis now);
    void evict_some(User& user, const Eviction& eviction, Evicted& evicted, Millis now);
    void evict(Session& session, const Eviction& eviction, Evicted& evicted, Millis now);
    void judge_logins();
    std::uint64_t bytes_expired_since(const HolderSearch& search) const {
        return packets_.queues().expired_bytes() - search.expired_before;
    }
    std::optional<HolderSearch> search(std::optional<HolderSearch>& search, HeldBytes counted,
                                       Millis now);
    bool is_over_budget() const;
    std::size_t fair_share(std::size_t sum, unsigned holders, bool is_short) const;
    bool make_room(Millis now);
    bool make_room_in_store(Millis now);
    void end_largest(const std::string& name, const char* why, Millis now);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    SessionTable& sessions_;
    Presence& presence_;
    Inboxes& inboxes_;
    RoomLogs& room_logs_;
    const Authorizations& authorizations_;
    const MemoryLimits& memory_;
    const Router& router_;
    const Retained& retained_;
    const PacketSender& packets_;
    const FanOut& fan_out_;
    ExpiredMessages& expired_;
    const Journal& journal_;
    Wills& wills_;
    SessionKeeper& keeper_;
    Counters& counters_;
    std::optional<HolderSearch> search_in_memory_;  ///< while there is too little room
    std::optional<HolderSearch> search_in_store_;
    Millis next_room_in_store_ = 0;
    std::uint64_t expired_before_ = 0;               ///< bytes, at the end of the last round
    std::optional<PresencePosition> judged_logins_;  ///< the progress; nothing: all are checked
};

}  // namespace pulsegate
