#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/encode.h"
#include "protocol/packet.h"
#include "server/auth/password_lines.h"
#include "server/base/clock.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/shard_place.h"

namespace pulsegate {

class Answers;
class Authorizations;
class EventRecorder;
class FanOut;
class History;
class Inboxes;
class Journal;
class Link;
class MemoryLimits;
class Presence;
class PresenceAnnouncer;
class Receipts;
class Replay;
class Rooms;
class Session;
class SessionKeeper;
class SessionTable;
class Subscriptions;
class Tracer;
class Wills;
enum class HistoryKind : std::uint8_t;
struct AuthResult;
struct BrokerSettings;
struct ConnectAgreement;
struct Counters;
struct DeliveryParts;
struct LoggedClient;
struct RequestParts;
struct ShardContext;
struct StoredWill;
struct Tables;
struct User;

/// Accepts or refuses the CONNECT of an authenticated client (MQTT 5.0, 3.1), and connects it with
/// its session. It owns nothing; it belongs to the shard's thread.
///
/// The header only names the parts of a shard's sessions, because the login flow needs nothing else
/// of them.
class Logins {
public:
    Logins(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
           const RequestParts& requests, PresenceAnnouncer& announcer, FanOut& fan_out,
           SessionKeeper& keeper);

    /// The home shard of a client. A client without a user and a client id stays on this one.
    unsigned home(const Connect& connect, const AuthResult& result) const;
    /// The user of a client; `client` is its client id.
    std::string_view user_name(const Connect& connect, const AuthResult& result,
                               std::string_view client) const;
    /// The session of the user's client, or null.
    const Session* find(std::string_view user, std::string_view client) const;

    /// The line of the password file with this fingerprint, or the fingerprint of the line, see
    /// Authorizations.
    std::optional<PasswordLine> line_of(std::uint64_t fingerprint) const;
    std::uint64_t fingerprint_of(PasswordLine line) const;

    /// The number of the last message that some of its many recipients do not have yet.
    std::uint64_t last_unfinished() const;
    /// Must the login of a client wait for such messages, up to that number, because they may be
    /// older than the messages that the client missed in rooms? Otherwise it would get the older
    /// message after the newer ones.
    bool awaits_deliveries(std::string_view user, std::string_view client,
                           std::uint64_t upto) const;

    /// Answers the CONNECT of an authenticated client. On success it sets `link.session` and the
    /// link's limit.
    void login(Link& link, const Connect& connect, const AuthResult& result, Millis now);

    /// Refuses a CONNECT and ends the link. `result` has the known facts about the login.
    void refuse(Link& link, const Connect& connect, const AuthResult& result,
                const LoginRefusal& refusal);

    /// Tells the traces the user and client of a link that has no session yet.
    void tell_traces(const Link& link, const Connect& connect, const AuthResult& result);
    /// Tells the history that the session's client has been banned.
    void tell_banned(const Session& session, const char* why);

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
    void detach(Session& session, Millis now);
    /// The connection that a login takes over; without one, both are false.
    struct Earlier {
        bool was_accepted = false;
        bool was_cut_off = false;
    };
    void begin(Session& session, bool resumed, Earlier earlier, Millis now);
    void attach(Session& session, Link& link, const ConnectAgreement& agreement);
    void send_connack_when_stored(Session& session, const Connect& connect, Buffer connack,
                                  bool resumed, std::unique_ptr<StoredWill> will);
    void accepted(Session& session, bool resumed, std::unique_ptr<StoredWill> will, Millis now);
    void set_expiry(Session& session, std::uint32_t expiry);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    SessionTable& sessions_;
    Presence& presence_;
    Inboxes& inboxes_;
    const Rooms& rooms_;
    const FanOut& fan_out_;
    Authorizations& authorizations_;
    const MemoryLimits& memory_;
    Subscriptions& subscriptions_;
    PresenceAnnouncer& announcer_;
    EventRecorder& events_;
    Tracer& tracer_;
    History& history_;
    Answers& answers_;
    Journal& journal_;
    Receipts& receipts_;
    Replay& replay_;
    Wills& wills_;
    SessionKeeper& keeper_;
    Counters& counters_;
    std::size_t waiting_ = 0;  ///< logins that wait for the store
};

}  // namespace pulsegate
