#include "server/login/login_flow.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "protocol/utf8.h"
#include "server/base/log.h"
#include "server/session/life/logins.h"
#include "server/session/state/session.h"

namespace pulsegate {

struct LoginFlow::Wait {
    LoginFlow& here;
    Login& login;
    Ticket ticket;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) {
        here.waiting_.emplace(ticket, WaitingLogin{SuspendedCoroutine(coroutine), &login});
    }
    void await_resume() const noexcept {}
};

namespace {

/// Time between two looks whether a message with very many recipients has been delivered, which
/// takes many rounds.
constexpr Millis until_delivered = 2;

/// How long a login waits until its edge has said whether the client is still there.
constexpr Millis edge_patience = 10'000;

/// Without the address: it takes a system call, and only the auth hook needs it.
Credentials credentials(const Login& login) {
    const Connect& connect = login.connect();
    return {.user = std::string(connect.username.value_or("")),
            .password = std::string(connect.password.value_or("")),
            .client = std::string(connect.client_id)};
}

/// True if the client still waits for the answer to its CONNECT.
bool is_there(const Login& login) {
    return login.connection->held() && !login.connection->peer_gone();
}

}  // namespace

LoginFlow::LoginFlow(const LoginSettings& settings, Rounds& rounds, const LoginGates& gates,
                     Counters& counters, Logins& logins, Transport& transport, LoginHost& host)
    : shard_(settings.shard),
      user_from_(settings.user_from),
      log_level_(level_of_logins(settings)),
      rounds_(rounds),
      admission_(gates.admission),
      address_limits_(gates.address_limits),
      authenticator_(gates.authenticator),
      counters_(counters),
      logins_(logins),
      transport_(transport),
      host_(host),
      client_limits_(settings.client_limits),
      takeovers_(logins, client_limits_, counters),
      pacer_(rounds, admission_.login_rate(), settings.login_wait, settings.max_loop_lag, counters,
             [this](Ticket ticket, bool in_time) { return serve(ticket, in_time); }) {}

LoginFlow::~LoginFlow() = default;

// -- the flow --

void LoginFlow::begin(Connection& connection, ReceivedConnect connect, Millis now) {
    thread_.assert_here();
    check({&connection, std::move(connect), now});
}

// While a step takes time, the coroutine belongs to `waiting_`; it is resumed only if its client is
// still there. Then it repeats the checks, because their results may have changed.

/// The steps before the user is known: room, the login's turn, and authentication.
DetachedCoroutine LoginFlow::check(Login login) {
    if (refused(login)) co_return;

    if (!pacer_.take_turn(login.now)) {
        if (refused_memory(login)) co_return;
        co_await turn(login);
        if (refused(login)) co_return;
        if (login.result.reason != Reason::success) co_return reject(login);
    }

    if (auto result = result_by_certificate(login)) {
        login.result = std::move(*result);
    } else if (authenticator_.required()) {
        if (refused_memory(login)) co_return;
        co_await authentication(login);
        if (refused(login)) co_return;
    }
    if (login.result.reason != Reason::success) co_return reject(login);
    limit_by_certificate(login);

    if (host_.forward_login(login)) co_return;
    const unsigned home = logins_.home(login.connect(), login.result);
    if (home == shard_)
        enter(std::move(login));
    else
        move(std::move(login), home);
}

/// The steps on the user's home shard: the client's behaviour, and pauses before it goes on.
DetachedCoroutine LoginFlow::enter(Login login) {
    if (refused_at_home(login)) co_return;
    const Millis time =
        takeovers_.pause(user_of(login), login.connect().client_id, *login.connection, login.now);
    if (time > 0) {
        if (refused_memory(login)) co_return;
        co_await pause(login, time);
        if (refused(login) || refused_at_home(login)) co_return;
    }
    auto under_way = logins_.last_unfinished();
    while (true) {
        const bool has_rival = meets_rival(login);
        if (has_rival && login.connection->peer_gone()) co_return login.connection->end(gone_early);
        const bool asks = has_rival && login.connection->channel();
        if (!asks && !awaits_deliveries(login, under_way)) break;
        if (refused_memory(login)) co_return;
        if (asks)
            co_await edge_answer(login);
        else
            co_await pause(login, until_delivered);
        if (refused(login) || refused_at_home(login)) co_return;
        if (asks) under_way = logins_.last_unfinished();  // the rival may have gone meanwhile
    }
    accept(login);
    if (awaits_connack(login)) co_await connack(login);
    login.connection->go_on(login.received.bytes);
}

void LoginFlow::refuse(const Login& login, Reason reason, std::string_view why,
                       std::string_view told) const {
    logins_.refuse(*login.connection, login.connect(), login.result, {reason, why, told});
}

// -- room --

bool LoginFlow::refused(const Login& login) {
    if (shutting_down_) {  // a CONNACK can't say 0x8B, server shutting down (MQTT 5.0, 2.4)
        refuse(login, Reason::server_unavailable, "the server is shutting down");
        return true;
    }
    if (drained_ && !login.connection->channel()) {
        refuse(login, Reason::use_another_server, "the server is drained: connect again");
        return true;
    }
    const auto refuse_for = [&](Limit limit, Reason reason, const char* why) {
        counters_.count(limit);
        refuse(login, reason, why);
        return true;
    };
    const Origin& origin = login.connection->origin();
    // Also for connections from before the ban: otherwise an attacker could open thousands of
    // connections first, and then guess on each.
    if (const auto cause = address_limits_.banned(origin.address, login.now))
        return refuse_banned(login, Limit::ban_failures, *cause,
                             "its address is banned for some time: wrong passwords");
    if (origin.standing == AddressLimits::Standing::too_many)
        return refuse_for(Limit::max_connections_per_address, Reason::quota_exceeded,
                          "its address has max-connections-per-address already");
    const auto reached = admission_.reached();
    const bool is_elsewhere = login.connection->channel();  // and counts there
    if (!reached || (is_elsewhere && *reached == Limit::max_connections)) return false;
    return refuse_for(*reached, Reason::server_busy,
                      *reached == Limit::max_connections
                          ? "max-connections, or the limit on open files, is reached"
                          : "memory-budget is used up");
}

/// A waiting login keeps its CONNECT, and perhaps a second copy of the credentials in it.
bool LoginFlow::refused_memory(Login& login) {
    const auto bytes = 2 * login.received.bytes.size();
    if (admission_.unauthenticated().resize(login.memory, login.connection->origin().address,
                                            bytes))
        return false;
    counters_.count(Limit::memory_budget);
    refuse(login, Reason::quota_exceeded,
           "waiting logins take too much of memory-budget, and its address takes most",
           "too many logins at once");
    return true;
}

// -- its turn --

LoginFlow::Wait LoginFlow::turn(Login& login) {
    // With a shorter login-wait, too, a login may wait for a second while others are served.
    login.connection->hold(std::max<Millis>(pacer_.longest_wait(), 1000));
    pacer_.add(login.connection->origin().address, ++last_ticket_, login.now);
    return {*this, login, last_ticket_};
}

bool LoginFlow::serve(Ticket ticket, bool in_time) {
    if (in_time) return resume_unless_gone(ticket);
    waiting_.at(ticket).login->result = {
        .reason = Reason::server_busy,
        .why = "too many logins at once: its turn did not come within login-wait"};
    resume(ticket);
    return true;
}

// -- who it is --

std::optional<AuthResult> LoginFlow::result_by_certificate(const Login& login) const {
    if (user_from_ != UserFrom::certificate) return std::nullopt;
    auto certificate = login.connection->certificate();
    if (!certificate) return std::nullopt;
    auto& name = certificate->name;
    if (name.empty() || name.size() > 65'535 || !valid_utf8(name) || has_control_character(name))
        return AuthResult{.reason = Reason::not_authorized,
                          .why = "its certificate has no common name that can be a user's"};
    return AuthResult{.user = std::move(name)};
}

/// The connection depends on a valid certificate, whatever other credentials the client shows.
void LoginFlow::limit_by_certificate(Login& login) {
    const auto certificate = login.connection->certificate();
    if (!certificate) return;
    auto& expiry = login.result.expiry;
    expiry = std::min(expiry.value_or(certificate->expiry), certificate->expiry);
}

LoginFlow::Wait LoginFlow::authentication(Login& login) {
    login.connection->hold(0);
    const Ticket ticket = ++last_ticket_;
    Credentials shown = credentials(login);
    if (authenticator_.has_hook()) shown.address = login.connection->address();
    authenticator_.authenticate(
        shown, login.connection->origin().address,
        [&host = host_, ticket](CheckPool::Ticket check) {
            host.begin_check({ticket, check});
        },
        [&host = host_, ticket](AuthResult result) {
            host.answer_login({ticket, std::make_unique<AuthResult>(std::move(result))});
        });
    return {*this, login, ticket};
}

/// Hashing a password for a client that has gone would delay the others.
void LoginFlow::receive(const CheckTurn& turn) {
    thread_.assert_here();
    const Login& login = *waiting_.at(turn.ticket).login;
    if (is_there(login)) return authenticator_.begin(turn.check, credentials(login));
    authenticator_.give_up(turn.check);
    abandon(turn.ticket);
}

void LoginFlow::receive(LoginAnswer& answer) {
    thread_.assert_here();
    waiting_.at(answer.ticket).login->result = std::move(*answer.result);
    resume_unless_gone(answer.ticket);
}

/// The log says why. The client is not told anything that would help it guess.
void LoginFlow::reject(const Login& login) {
    const AuthResult& result = login.result;
    if (result.guessed) count_wrong_password(login);
    const char* words = "it did not authenticate";
    if (result.reason == Reason::server_busy) words = "too many logins at once";
    if (result.reason == Reason::server_unavailable) words = "logins can't be checked now";
    if (result.told) words = result.told;
    refuse(login, result.reason, result.why, words);
}

void LoginFlow::count_wrong_password(const Login& login) {
    const Connect& connect = login.connect();
    const Address& address = login.connection->origin().address;
    const auto guess = recent_key(connect.username.value_or(""), connect.password.value_or(""));
    if (!address_limits_.failed(address, guess, login.now)) return;
    host_.tell_ban(address);
    log_limited(spdlog::level::warn,
                "{} banned for ban-time: too many wrong passwords from there (ban-failures). "
                "DELETE /api/v1/bans?address={} lifts the ban; if the address belongs to a proxy, "
                "use ?proxy-protocol",
                LoggedAddress{address.text()}, address.text());
}

// -- at home --

void LoginFlow::move(Login login, unsigned home) {
    logins_.tell_traces(*login.connection, login.connect(), login.result);
    login.handoff.emplace(login.connection->release());
    login.connection.reset();
    host_.move_login(home, std::make_unique<Login>(std::move(login)));
}

void LoginFlow::receive(MovedLogin& moved) {
    thread_.assert_here();
    Login login = std::move(*moved);
    login.connection = transport_.adopt(std::move(*login.handoff));
    login.handoff.reset();
    if (!login.connection) return;
    login.now = monotonic_now();
    arrive(std::move(login));
}

void LoginFlow::enter_from_edge(boost::intrusive_ptr<Connection> connection,
                                ReceivedConnect connect, AuthResult result) {
    thread_.assert_here();
    arrive({.connection = std::move(connection),
            .received = std::move(connect),
            .now = monotonic_now(),
            .result = std::move(result)});
}

std::string_view LoginFlow::user_of(const Login& login) const {
    return logins_.user_name(login.connect(), login.result, login.connect().client_id);
}

void LoginFlow::arrive(Login login) {
    logins_.tell_traces(*login.connection, login.connect(), login.result);
    if (refused(login)) return;
    if (login.result.reason != Reason::success) return reject(login);
    enter(std::move(login));
}

/// Nothing runs between this check and the login. So a client that is banned in the meantime is
/// either refused here, or connected before the user's clients are disconnected.
bool LoginFlow::refused_at_home(const Login& login) {
    const auto user = user_of(login);
    if (const auto cause = client_limits_.banned(user, login.connect().client_id, login.now))
        return refuse_banned(login, Limit::ban_flaps, *cause,
                             "the client is banned for some time: it reconnected too often");
    const auto issued = login.result.token_issued;
    if (issued && revocations_.revoked(user, *issued)) {
        refuse(login, Reason::bad_user_name_or_password, "its token was revoked",
               "it did not authenticate");
        return true;
    }
    const auto asked = login.result.asked;
    if (!asked || !revocations_.revoked_since(user, *asked)) return false;
    // In place of a younger answer, the edge could only get another one that is refused.
    Channel* const channel = login.connection->channel();
    const Millis age = login.now - *asked - login.result.on_link;
    if (channel && age >= login.result.on_link) channel->note_old_answer();
    refuse(login, Reason::server_busy,
           "its user's logins were revoked after the auth-hook was asked; it decides again at the "
           "next login",
           "logins were revoked meanwhile: come again");
    return true;
}

/// The administrator's reason goes to the log only.
bool LoginFlow::refuse_banned(const Login& login, Limit limit, const BanCause& cause,
                              const char* automatically) {
    if (cause.ordered) {
        const auto why = fmt::format("banned by the HTTP API: {}", in_quotes(cause.reason));
        refuse(login, Reason::banned, why, "banned");
    } else {
        counters_.count(limit);
        refuse(login, Reason::banned, automatically);
    }
    return true;
}

LoginFlow::Wait LoginFlow::pause(Login& login, Millis time) {
    login.connection->hold(time);
    const Ticket ticket = ++last_ticket_;
    login.pause = std::make_unique<boost::asio::steady_timer>(rounds_.context());
    rounds_.after(*login.pause, std::chrono::milliseconds(time), [this, ticket] { go_on(ticket); });
    return {*this, login, ticket};
}

bool LoginFlow::awaits_deliveries(const Login& login, std::uint64_t upto) const {
    return logins_.awaits_deliveries(user_of(login), login.connect().client_id, upto);
}

bool LoginFlow::meets_rival(Login& login) const {
    const std::string_view named = login.connect().client_id;
    const std::string_view client = named.empty() ? login.result.client : named;
    return takeovers_.meets_rival(logins_.user_name(login.connect(), login.result, client), client,
                                  login.rival);
}

/// An edge whose client has gone says that the connection has ended.
LoginFlow::Wait LoginFlow::edge_answer(Login& login) {
    login.connection->hold(edge_patience);
    login.connection->channel()->ask_silence();
    awaiting_edge_.emplace(login.connection.get(), ++last_ticket_);
    return {*this, login, last_ticket_};
}

void LoginFlow::accept(Login& login) {
    Connection& connection = *login.connection;
    logins_.login(connection, login.connect(), login.result, login.now);
    if (const Session* session = connection.session; session && spdlog::should_log(log_level_))
        log_limited(log_level_, "{}: login", session->logged());
}

/// True if the CONNACK waits for the store. The packets behind the CONNECT wait for the CONNACK.
bool LoginFlow::awaits_connack(const Login& login) {
    const Session* session = login.connection->session;
    return session && session->awaits_connack;
}

LoginFlow::Wait LoginFlow::connack(Login& login) {
    login.connection->hold(0);
    awaiting_connack_.emplace(login.connection.get(), ++last_ticket_);
    return {*this, login, last_ticket_};
}

void LoginFlow::connack_sent(const Connection& connection) {
    go_on_later(awaiting_connack_, connection);
}

void LoginFlow::edge_answered(const Connection& connection) {
    go_on_later(awaiting_edge_, connection);
}

void LoginFlow::ended(const Connection& connection) {
    thread_.assert_here();
    for (TicketsByConnection* const waiting : {&awaiting_connack_, &awaiting_edge_}) {
        const auto found = waiting->find(&connection);
        if (found == waiting->end()) continue;
        waiting_.erase(found->second);
        waiting->erase(found);
    }
}

void LoginFlow::count_end(const Session& session, const Ending& ending, Millis now) {
    const bool broken = ending.cause == Cause::connection_lost || ending.cause == Cause::kicked;
    const bool evicted = ending.reason == Reason::administrative_action;
    if (evicted || ending.is_ours || (!broken && ending.cause != Cause::logout)) return;
    const bool banned = broken ? client_limits_.broke_off(session.user.name, session.client, now)
                               : client_limits_.logged_out(session.user.name, session.client, now);
    if (!banned) return;
    log_limited(spdlog::level::warn,
                "{} banned for ban-time: it reconnects too often (ban-flaps). DELETE at "
                "/api/v1/bans lifts the ban",
                session.logged());
    logins_.tell_banned(session, "it reconnects too often (ban-flaps)");
}

// -- those that wait --

void LoginFlow::hold(bool holds) {
    thread_.assert_here();
    holds_ = holds;
    pacer_.hold(holds);
    if (holds) return;
    for (const Ticket ticket : std::exchange(held_, {})) go_on(ticket);
}

void LoginFlow::go_on(Ticket ticket) {
    if (holds_) return held_.push_back(ticket);
    resume_unless_gone(ticket);
}

/// The login goes on in a round of its own, because the packets that the client has sent meanwhile
/// may change much.
void LoginFlow::go_on_later(TicketsByConnection& waiting, const Connection& connection) {
    thread_.assert_here();
    const auto found = waiting.find(&connection);
    if (found == waiting.end()) return;
    rounds_.later([this, ticket = found->second] { go_on(ticket); });
    waiting.erase(found);
}

/// Returns false if the client has gone.
bool LoginFlow::resume_unless_gone(Ticket ticket) {
    thread_.assert_here();
    const bool there = is_there(*waiting_.at(ticket).login);
    if (there)
        resume(ticket);
    else
        abandon(ticket);
    return there;
}

/// Ends the login of a client that has gone.
void LoginFlow::abandon(Ticket ticket) {
    waiting_.at(ticket).login->connection->end(gone_early);
    waiting_.erase(ticket);
}

void LoginFlow::resume(Ticket ticket) {
    const auto found = waiting_.find(ticket);
    WaitingLogin waiting = std::move(found->second);
    waiting_.erase(found);
    if (!waiting.login->connection->held()) return;  // its time to log in was up
    waiting.login->now = monotonic_now();
    waiting.coroutine.resume();
}

}  // namespace pulsegate
