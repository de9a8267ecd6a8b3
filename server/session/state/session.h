#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/auth/access.h"
#include "server/auth/password_lines.h"
#include "server/session/durable/shard_messages.h"
#include "server/session/state/replay_state.h"
#include "server/session/state/session_state.h"
#include "server/session/state/topic_aliases.h"
#include "server/session/terms/absence.h"
#include "server/session/terms/client_terms.h"
#include "server/session/terms/link.h"
#include "server/session/terms/logged_client.h"
#include "server/session/users/presence.h"
#include "wheel/stacked_wheel.h"

namespace pulsegate {

class Session;

/// The rules and the expiry of a login, if there are any.
struct Authorization : StackedWheel::Node {
    explicit Authorization(Session& session) : session(session) {}

    Session& session;
    std::shared_ptr<const AccessRules> rules{};  ///< null: the gateway's rules
    std::optional<std::int64_t> expiry{};        ///< seconds since 1970
    std::optional<std::int64_t> token_issued{};  ///< nothing: the login was not by a token
};

/// When the will of a disconnected client is due, and when its session ends.
struct SessionExpiry : StackedWheel::Node, Absence {
    SessionExpiry(Session& session, Tick ends) : Absence(ends, false), session(session) {}

    Session& session;
    Stamp position = 0;  ///< the session has not received later messages in its user's rooms
};

static_assert(sizeof(SessionExpiry) <= 72);  // the next smaller allocator size than 80

/// A client's session on its home shard (MQTT 5.0, section 4.1), which may outlive its connection.
/// It is a device of its user: presence counts it while it is connected, and it receives messages
/// to the user's inbox while it exists. It owns its state; the parts of the Broker change it. It
/// belongs to the shard's thread.
class Session final : public Device, public Subscriber {
public:
    Session(SessionId id, User& user, std::string client, WallMillis now)
        : Device(std::move(client), now), id(id), user(user) {
        ++user.sessions;
    }
    ~Session() override {
        --user.sessions;
        user.kept -= static_cast<std::uint32_t>(kept());
    }

    Millis last_packet() const override { return link->last_packet(); }
    Millis limit() const override { return link ? link->limit() : 0; }

    /// Is its client connected, and may it be sent packets?
    bool has_connack() const { return link && !awaits_connack; }

    /// Its client's name in log lines; valid as long as the session.
    LoggedClient logged() const { return {link, client, user.name}; }

    /// Identifies the client, not the session: no-local compares clients (MQTT 5.0, 3.8.3.1).
    std::uint64_t fingerprint() const;

    /// Disconnects the client, which must be connected, because of the client's error.
    void disconnect(Reason reason, const char* why) { link->end({Cause::kicked, reason, why}); }

    /// Counts bytes that the client makes the gateway keep; see MemoryLimits. Bytes that were
    /// counted together must be released together.
    void keep(std::size_t bytes);
    void release(std::size_t bytes);
    std::size_t kept() const { return kept_ * kept_unit; }
    /// The same without the session's will and topic aliases, because a new connection replaces
    /// these.
    std::size_t kept_by_state() const;

    void set_will(std::unique_ptr<StoredWill> will);
    std::unique_ptr<StoredWill> take_will();

    // Both count the bytes of the aliases.
    void set_alias(std::uint16_t alias, std::string_view topic);
    void introduce_alias(const std::string& topic, std::uint16_t alias);
    void forget_aliases();

    // Both share one byte of padding.
    /// A subscription of it has brought the message that is being delivered.
    bool is_reached : 1 = false;
    bool awaits_connack : 1 = false;  ///< its login waits for the store: it is not accepted yet

private:
    static constexpr std::size_t kept_unit = 256;
    static std::uint16_t units(std::size_t bytes) {
        return static_cast<std::uint16_t>((bytes + kept_unit - 1) / kept_unit);
    }

    std::uint16_t kept_ = 0;  ///< in units, so that it fits into padding

public:
    PasswordLine password_line = 0;  ///< that its client logged in with
    const SessionId id;
    User& user;
    SessionState state;

    // While its client is connected:
    Link* link = nullptr;  ///< null while disconnected
    ClientTerms terms;
    std::unique_ptr<TopicAliases> aliases;
    std::unique_ptr<Authorization> authorization;

    std::unique_ptr<ReplayState> replay;
    std::unique_ptr<SessionExpiry> expiry_timer;  ///< while its client is disconnected
};

static_assert(sizeof(Session) <= 184);  // the next smaller allocator size than 192

}  // namespace pulsegate
