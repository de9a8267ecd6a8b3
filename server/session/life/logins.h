#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/auth/auth_result.h"
#include "server/base/counters.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/event_recorder.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/presence_announcer.h"
#include "server/session/durable/shard_context.h"
#include "server/session/life/connect_agreement.h"
#include "server/session/life/session_keeper.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/request_parts.h"
#include "server/session/requests/subscriptions.h"
#include "server/session/requests/wills.h"
#include "server/session/state/memory_limits.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"
#include "server/session/users/history.h"

namespace pulsegate {

/// Accepts or refuses the CONNECT of an authenticated client (MQTT 5.0, 3.1), and connects it with
/// its session. It has many members because a login touches nearly every part of a shard. It owns
/// nothing; it belongs to the shard's thread.
class Logins {
public:
    Logins(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
           PresenceAnnouncer& announcer, const RequestParts& requests, SessionKeeper& keeper)
        : settings_(context.settings),
          place_(context.place),
          sessions_(tables.sessions),
          presence_(tables.presence),
          inboxes_(delivery.inboxes),
          rooms_(delivery.rooms),
          authorizations_(requests.authorizations),
          memory_(requests.memory),
          subscriptions_(requests.subscriptions),
          announcer_(announcer),
          events_(delivery.events),
          history_(context.history),
          answers_(delivery.sender.answers()),
          journal_(context.journal),
          receipts_(context.receipts),
          wills_(requests.wills),
          keeper_(keeper),
          counters_(context.counters) {}

    void login(Link& link, const Connect& connect, const AuthResult& result, Millis now);

    /// Refuses a CONNECT and ends the link. `result` has the known facts about the login.
    void refuse(Link& link, const Connect& connect, const AuthResult& result,
                const LoginRefusal& refusal);

private:
    void turn_away(Link& link, const Connect& connect, const AuthResult& result,
                   const Refusal& refusal);
    void tell_history(const LoggedClient& claimed, const Connect& connect,
                      const LoginRefusal& refusal);
    void tell_history(const Session& session, HistoryKind kind, const char* why);
    std::string assign_client_id(const Connect& connect, const AuthResult& result) const;
    bool is_full(const User& user, std::string_view client) const;
    std::optional<Refusal> objection_to_will(const User& user, const Session* known, bool resumed,
                                             const Connect& connect,
                                             const ConnectAgreement& agreement);
    std::optional<Refusal> objection_of_store(const User& user, const Session* known, bool resumed,
                                              std::string_view client,
                                              const ConnectAgreement& agreement, Millis now);
    bool is_as_stored(const Session& session, const ConnectAgreement& agreement, Millis now);
    void detach(Session& session);
    void begin(Session& session, bool resumed, Millis now);
    void attach(Session& session, Link& link, const ConnectAgreement& agreement);
    void greet_when_stored(Session& session, const Connect& connect, Buffer connack, bool resumed,
                           std::unique_ptr<StoredWill> will);
    void accepted(Session& session, bool resumed, std::unique_ptr<StoredWill> will, Millis now);
    void set_expiry(Session& session, std::uint32_t expiry);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    SessionTable& sessions_;
    Presence& presence_;
    Inboxes& inboxes_;
    const Rooms& rooms_;
    Authorizations& authorizations_;
    const MemoryLimits& memory_;
    Subscriptions& subscriptions_;
    PresenceAnnouncer& announcer_;
    EventRecorder& events_;
    History& history_;
    Answers& answers_;
    Journal& journal_;
    Receipts& receipts_;
    Wills& wills_;
    SessionKeeper& keeper_;
    Counters& counters_;
    std::size_t waiting_ = 0;  ///< logins that wait for the store
};

/// The user of a client; `client` is its client id.
std::string_view user_name(const BrokerSettings& settings, const Connect& connect,
                           const AuthResult& result, std::string_view client);

}  // namespace pulsegate
