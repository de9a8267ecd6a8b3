#pragma once

#include <spdlog/common.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/auth/auth_result.h"
#include "server/auth/revocations.h"
#include "server/base/clock.h"
#include "server/base/coroutine.h"
#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"
#include "server/limits/client_limits.h"
#include "server/login/authenticator.h"
#include "server/login/login_pacer.h"
#include "server/login/takeovers.h"
#include "server/loop/rounds.h"
#include "server/session/terms/link.h"
#include "server/session/terms/settings.h"
#include "server/transport/connections/connection.h"
#include "server/transport/connections/connection_owner.h"
#include "server/transport/connections/handoff.h"
#include "server/transport/transport.h"

namespace pulsegate {

struct LoginSettings {
    unsigned shard;
    Millis login_wait;
    Millis max_loop_lag;
    ClientLimitSettings client_limits;
    UserFrom user_from;
    bool log_logins;  ///< at level info
};

/// The parts of the gateway that decide which clients may log in. It owns none of them.
struct LoginGates {
    Admission& admission;
    AddressLimits& address_limits;
    Authenticator& authenticator;
};

class LoginFlow;
class Logins;

/// The work of a login, in messages to one client.
inline constexpr std::uint64_t login_work = 128;

/// A login under way: its CONNECT and its progress. It belongs to the shard where it is now, in the
/// frame of its coroutine there.
struct Login {
    boost::intrusive_ptr<Connection> connection;
    ReceivedConnect received;
    Millis now;  ///< when it began or was last resumed
    AuthResult result{};
    std::unique_ptr<boost::asio::steady_timer> pause{};
    UnauthenticatedMemory::Share memory{};  ///< the memory it takes while it waits
    std::optional<Handoff> handoff{};       ///< replaces the connection while it moves home
    std::optional<Rival> rival{};           ///< see Takeovers::meets_rival

    const Connect& connect() const { return received.connect; }
};

/// A suspended login: its coroutine, and the Login in the coroutine's frame.
struct WaitingLogin {
    SuspendedCoroutine coroutine;
    Login* login;
};

/// A login on its way to the user's home shard, with its Handoff.
using MovedLogin = std::unique_ptr<Login>;

/// The authenticator's answer to one login of a shard.
struct LoginAnswer {
    LoginQueue::Ticket ticket;
    std::unique_ptr<AuthResult> result;
};

/// The credentials of a login may be checked now, if its client is still there.
struct CheckTurn {
    LoginQueue::Ticket ticket;
    CheckPool::Ticket check;
};

/// What the logins of a shard need of the shard.
class LoginHost {
public:
    virtual void move_login(unsigned shard, MovedLogin login) = 0;
    /// If another node has the sessions, sends the login there or refuses it, and returns true.
    virtual bool forward_login(Login& login) = 0;
    /// Tells the other nodes that this node has banned the address.
    virtual void tell_ban(const Address& address) = 0;

    /// These send to the logins of this shard, from any thread.
    virtual void begin_check(CheckTurn turn) = 0;
    virtual void answer_login(LoginAnswer answer) = 0;

protected:
    ~LoginHost() = default;
};

/// The end of a login whose client has gone. While a login waits, nothing is read from its client.
inline const Ending gone_early{Cause::connection_lost, Reason::success, "gone before its turn"};

/// Logs in the clients of one shard. A login has two coroutines: `check` runs on the shard that
/// accepted the connection, `enter` on the user's home shard. This class owns the logins that wait
/// on its shard, their queue, and the counts of how clients behave. It lives on the shard's thread.
/// It owns its members, except those that are references.
class LoginFlow {
public:
    LoginFlow(const LoginSettings& settings, Rounds& rounds, const LoginGates& gates,
              Counters& counters, Logins& logins, Transport& transport, LoginHost& host);
    ~LoginFlow();

    /// Applies other limits. The setting user-from stays as it was.
    void use(const LoginSettings& settings) {
        client_limits_.use(settings.client_limits);
        pacer_.use(settings.login_wait, settings.max_loop_lag);
        log_level_ = level_of_logins(settings);
    }

    void begin(Connection& connection, ReceivedConnect connect, Millis now);

    /// The client's edge has checked its credentials. The connection is held.
    void enter_from_edge(boost::intrusive_ptr<Connection> connection, ReceivedConnect connect,
                         AuthResult result);

    /// These take what came through the mailbox.
    void receive(MovedLogin& moved);
    void receive(const CheckTurn& turn);
    void receive(LoginAnswer& answer);

    /// Refuses all logins from now on, including those under way: the gateway stops.
    void announce_shutdown() { shutting_down_ = true; }

    /// Refuses them too, except from edges, and sends clients to other servers: the gateway is
    /// drained.
    void drain() { drained_ = true; }

    /// The CONNACK that waited for the store has been sent.
    void connack_sent(const Connection& connection);
    /// The edge has said whether the client of this connection is still there.
    void edge_answered(const Connection& connection);
    /// The connection has ended. If its login waits for the store or for the edge, the login ends
    /// too.
    void ended(const Connection& connection);

    /// The connection of a logged-in client has ended.
    void count_end(const Session& session, const Ending& ending, Millis now);

    /// True: logins under way wait where they are. False: they go on.
    void hold(bool holds);
    std::size_t under_way() const { return waiting_.size(); }

    void report_lag(Millis lag) { pacer_.report_lag(lag); }
    /// The number of logins that wait for their turn.
    std::size_t waiting() const { return pacer_.waiting(); }
    ClientLimits& client_limits() { return client_limits_; }
    Revocations& revocations() { return revocations_; }

private:
    static spdlog::level::level_enum level_of_logins(const LoginSettings& settings) {
        return settings.log_logins ? spdlog::level::info : spdlog::level::debug;
    }
    using Ticket = LoginQueue::Ticket;
    using TicketsByConnection = boost::unordered_flat_map<const Connection*, Ticket>;

    /// Suspends a login until its ticket resumes it.
    struct Wait;

    DetachedCoroutine check(Login login);
    DetachedCoroutine enter(Login login);
    void move(Login login, unsigned home);
    void arrive(Login login);
    std::string_view user_of(const Login& login) const;

    void refuse(const Login& login, Reason reason, std::string_view why,
                std::string_view told) const;
    void refuse(const Login& login, Reason reason, std::string_view why) const {
        refuse(login, reason, why, why);
    }

    // The steps of a login. Those that return true have refused it.
    bool refused(const Login& login);
    bool refused_at_home(const Login& login);
    bool refuse_banned(const Login& login, Limit limit, const BanCause& cause,
                       const char* automatically);
    bool refused_memory(Login& login);
    Wait turn(Login& login);
    std::optional<AuthResult> result_by_certificate(const Login& login) const;
    static void limit_by_certificate(Login& login);
    Wait authentication(Login& login);
    void reject(const Login& login);
    Wait pause(Login& login, Millis time);
    bool awaits_deliveries(const Login& login, std::uint64_t upto) const;
    bool meets_rival(Login& login) const;
    Wait edge_answer(Login& login);
    void accept(Login& login);
    static bool awaits_connack(const Login& login);
    Wait connack(Login& login);

    void count_wrong_password(const Login& login);

    bool serve(Ticket ticket, bool in_time);
    void go_on(Ticket ticket);
    void go_on_later(TicketsByConnection& waiting, const Connection& connection);
    bool resume_unless_gone(Ticket ticket);
    void resume(Ticket ticket);
    void abandon(Ticket ticket);

    const unsigned shard_;
    const UserFrom user_from_;
    spdlog::level::level_enum log_level_;  ///< of logins
    Rounds& rounds_;
    Admission& admission_;
    AddressLimits& address_limits_;
    Authenticator& authenticator_;
    Counters& counters_;
    Logins& logins_;
    Transport& transport_;
    LoginHost& host_;
    ClientLimits client_limits_;
    Takeovers takeovers_;
    Revocations revocations_;
    LoginPacer pacer_;
    Ticket last_ticket_ = 0;
    bool shutting_down_ = false;
    bool drained_ = false;
    bool holds_ = false;
    std::vector<Ticket> held_;  ///< due to go on while logins are held
    boost::unordered_flat_map<Ticket, WaitingLogin> waiting_;
    TicketsByConnection awaiting_connack_;  ///< some of the waiting logins
    TicketsByConnection awaiting_edge_;     ///< others of them
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
