#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/auth/auth_result.h"
#include "server/session/authorizations.h"
#include "server/session/connect_agreement.h"
#include "server/session/delayed_publishing.h"
#include "server/session/ended_sessions.h"
#include "server/session/event_recorder.h"
#include "server/session/eviction.h"
#include "server/session/fan_out.h"
#include "server/session/inboxes.h"
#include "server/session/memory_limits.h"
#include "server/session/presence_announcer.h"
#include "server/session/refusal.h"
#include "server/session/replay.h"
#include "server/session/room_logs.h"
#include "server/session/session_table.h"
#include "server/session/settings.h"
#include "server/session/shared_subscriptions.h"
#include "server/session/subscriptions.h"

namespace pulsegate {

/// How sessions begin, continue and end: CONNECT, DISCONNECT, the end of a connection, and the
/// expiry of disconnected clients' sessions (MQTT 5.0, 3.1, 3.14 and 4.1). It knows who has ended
/// of late, and owns nothing; it belongs to the shard's thread.
class Lifecycle {
public:
    Lifecycle(const BrokerSettings& settings, ShardPlace place, SessionTable& sessions,
              Presence& presence, Inboxes& inboxes, Rooms& rooms, RoomLogs& room_logs,
              Authorizations& authorizations, const MemoryLimits& memory, const Retained& retained,
              SharedSubscriptions& shared, Subscriptions& subscriptions, Replay& replay,
              FanOut& fan_out, DelayedPublishing& delayed, PresenceAnnouncer& announcer,
              EventRecorder& events, PacketSender& sender, Journal& journal, Receipts& receipts,
              Counters& counters);

    void login(Link& link, const Connect& connect, const AuthResult& result, Millis now);

    /// Refuses a CONNECT and ends the link. `why` goes to the log, `told` to the client.
    void refuse(Link& link, const Connect& connect, Reason reason, std::string_view why,
                std::string_view told);

    void receive(Session& session, const Disconnect& disconnect);

    /// The client's connection has ended.
    void end(Session& session, const Ending& ending, Millis now);

    /// Disconnects clients, and ends sessions if asked, a bounded number of them: what is left is
    /// for another turn.
    Evicted evict(const Eviction& eviction, Millis now);

    /// Other lines of the password file are valid now: disconnects the clients that came by one
    /// that no longer is, beginning with some of them.
    void end_invalid_logins() {
        if (sessions_.connected() == 0) return;  // nor does the shard run yet
        judged_logins_ = PresencePosition{};
        judge_logins();
    }

    /// Publishes that all users are offline, because the gateway stops; connections are still open,
    /// so that subscribers receive it.
    void announce_shutdown(Millis now);

    /// Ends sessions that are due or exceed a quota, publishes wills that are due and disconnects
    /// clients whose logins are not valid any more, a bounded number of them. True if there are
    /// more.
    [[nodiscard]] bool expire(Millis now);

private:
    /// Sessions that end in one turn of the loop, possibly with a will; the others wait for the
    /// next turn.
    static constexpr std::size_t sessions_a_turn = 64;

    void refuse(Link& link, const Connect& connect, const Refusal& refusal);
    std::string assign_client_id(const Connect& connect, const AuthResult& result) const;
    bool is_full(const User& user, std::string_view client) const;
    void detach(Session& session);
    void begin(Session& session, bool resumed, Millis now);
    void catch_up(Session& session, Millis now);
    void welcome_first_device(User& user, Millis now);
    void attach(Session& session, Link& link, const Connect& connect,
                const ConnectAgreement& agreement);
    void greet(Session& session, const Connect& connect, Buffer connack);
    void set_expiry(Session& session, std::uint32_t expiry);
    void store_owner(const Session& session);
    void set_will(Session& session, std::unique_ptr<StoredWill> will);
    void resume(Session& session, Millis now);
    void interrupt(Session& session, Millis now);
    void clear(Session& session, Millis now);
    void end_inbox_if_done(User& user, Millis now);
    void publish_will(Session& session, Millis now);
    bool may_publish(const Session& session, const StoredWill& will) const;
    void evict_some(User& user, const Eviction& eviction, Evicted& evicted, Millis now);
    void evict(Session& session, const Eviction& eviction, Evicted& evicted, Millis now);
    void judge_logins();
    void end_disconnected(Session& session, const char* why, Millis now);
    bool make_room(Millis now);
    void make_room_in_store(Millis now);
    void end_largest(User& user, const char* why, Millis now);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    SessionTable& sessions_;
    Presence& presence_;
    Inboxes& inboxes_;
    Rooms& rooms_;
    RoomLogs& room_logs_;
    Authorizations& authorizations_;
    const MemoryLimits& memory_;
    const Retained& retained_;
    SharedSubscriptions& shared_;
    Subscriptions& subscriptions_;
    Replay& replay_;
    FanOut& fan_out_;
    DelayedPublishing& delayed_;
    PresenceAnnouncer& announcer_;
    EventRecorder& events_;
    PacketSender& sender_;
    Journal& journal_;
    Receipts& receipts_;
    Counters& counters_;
    EndedSessions ended_;
    Millis next_room_in_store_ = 0;
    std::optional<PresencePosition> judged_logins_;  ///< how far; nothing: all are judged
};

/// The user of a client; `client` is its client id.
std::string_view user_name(const BrokerSettings& settings, const Connect& connect,
                           const AuthResult& result, std::string_view client);

}  // namespace pulsegate
