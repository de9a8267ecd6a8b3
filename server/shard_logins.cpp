// How a CONNECT becomes a login: the part of a shard that asks whether there is room, whose turn it
// is, who it is and where it is at home. Wherever that takes time, the connection is held and a
// ticket kept for it.
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "protocol/topic.h"
#include "server/log.h"
#include "server/shard.h"
#include "server/transport/connection.h"
#include "server/transport/wrapping.h"

namespace pulsegate {

namespace {

/// Logins of one turn; in between, others get theirs.
constexpr int logins_a_turn = 2;
/// And those who are told that it is too late, or have left: they cost less.
constexpr int refusals_a_turn = 64;

/// How long those who wait are left alone when the rate or a late loop holds them up.
constexpr auto queue_rest = std::chrono::milliseconds(2);

}  // namespace

void Shard::on_connect(Connection& connection, const Connect& connect, Millis now) {
    if (const auto objection = objection_to(connection, now)) {
        counters_.count(objection->limit);
        return broker_.refuse(connection, connect, objection->reason, objection->why);
    }
    Application application = connection.take_application();
    if (!application.had_turn && !may_log_in(now)) {
        const Ticket ticket = hold(connection, login_queue_.longest_wait());
        return login_queue_.add(connection.visit().address, ticket, now);
    }
    application.had_turn = true;

    if (!application.verdict) application.verdict = verdict_by_certificate(connection);
    if (!application.verdict && gatekeeper_.asks()) return ask_for_verdict(connection, connect);
    if (!application.verdict) application.verdict.emplace();
    const Verdict& verdict = *application.verdict;
    if (verdict.reason != Reason::success) return turn_away(connection, connect, verdict);

    const unsigned home = broker_.home(connect, verdict);
    if (home != index_) {
        shards_[home]->send(connection.release(std::move(application)));
        return;
    }
    const auto user = broker_.user_name(connect, verdict, connect.client_id);
    if (conduct_.banned(user, connect.client_id, now)) {
        counters_.count(Limit::ban_flaps);
        return broker_.refuse(connection, connect, Reason::banned,
                              "the client is banned for a while: it came and went too often");
    }
    if (!application.has_paused)
        if (const auto time = pause_of(connection, user, connect.client_id, now))
            return pause(connection, std::move(application), time);
    broker_.login(connection, connect, verdict, now);
    if (const Session* session = connection.session;
        session && spdlog::should_log(spdlog::level::debug))
        log_limited(spdlog::level::debug, "{} client {} of user {}: login", connection.peer(),
                    quoted(session->client), quoted(session->user.name));
}

std::optional<Shard::Objection> Shard::objection_to(const Connection& connection,
                                                    Millis now) const {
    // Also if it came before the ban: else one opens thousands of connections first, and then
    // guesses on each.
    if (visitors_.banned(connection.visit().address, now))
        return Objection{Reason::banned, "its address is banned for a while: wrong passwords",
                         Limit::ban_failures};
    if (connection.visit().standing == Visitors::Standing::crowded)
        return Objection{Reason::quota_exceeded,
                         "its address has max-connections-per-address already",
                         Limit::max_connections_per_address};
    const auto reached = admission_.reached();
    if (reached == Limit::max_connections)
        return Objection{Reason::server_busy,
                         "max-connections, or the limit on open files, is reached", *reached};
    if (reached) return Objection{Reason::server_busy, "memory-budget is used up", *reached};
    return std::nullopt;
}

// -- its turn
// ----------------------------------------------------------------------------------------

/// Without waiting: if nobody else waits, the loop is in time, and the rate allows it.
bool Shard::may_log_in(Millis now) {
    expect_logins();
    if (logins_this_turn_ >= logins_a_turn) return false;
    if (lag_ > max_loop_lag_) {
        counters_.count(Limit::max_loop_lag);
        return false;
    }
    if (!login_queue_.empty() || !login_queue_.take(now)) {
        counters_.count(Limit::login_rate);
        return false;
    }
    ++logins_this_turn_;
    return true;
}

/// A turn for those who wait, behind all that is to be done already and what sockets bring
/// meanwhile: how long it takes to come is how late the loop is.
void Shard::expect_logins() {
    if (std::exchange(logins_expected_, true)) return;
    boost::asio::post(io_, [this, since = monotonic_now()] {
        boost::asio::post(io_, [this, since] { next_logins(monotonic_now() - since); });
    });
}

void Shard::next_logins(Millis late) {
    const Millis now = monotonic_now();
    lag_ = late;
    logins_this_turn_ = 0;
    logins_expected_ = false;
    for (int i = 0; i < refusals_a_turn; ++i) {
        const auto ticket = login_queue_.next_overdue(now);
        if (!ticket) break;
        counters_.count(Limit::login_wait);
        go_on(*ticket, {.had_turn = true,
                        .verdict = Verdict{.reason = Reason::server_busy,
                                           .why = "too many logins at once: its turn did not come "
                                                  "within login-wait"}});
    }
    if (lag_ <= max_loop_lag_) serve_queue(now);
    transport_.end_turn();
    if (login_queue_.empty()) return;
    if (logins_this_turn_ == logins_a_turn) return expect_logins();
    logins_expected_ = true;
    login_timer_.expires_after(queue_rest);
    login_timer_.async_wait([this](boost::system::error_code error) {
        const auto since = std::chrono::steady_clock::now() - login_timer_.expiry();
        if (!error) next_logins(since / std::chrono::milliseconds(1));
    });
}

void Shard::serve_queue(Millis now) {
    for (int i = 0; i < refusals_a_turn; ++i) {
        if (logins_this_turn_ == logins_a_turn || login_queue_.empty() || !login_queue_.take(now))
            return;
        if (go_on_unless_gone(*login_queue_.next(), {.had_turn = true}))
            ++logins_this_turn_;
        else
            login_queue_.give_back();
    }
}

// -- who it is
// ---------------------------------------------------------------------------------------

std::optional<Verdict> Shard::verdict_by_certificate(const Connection& connection) const {
    if (settings_.user_from != UserFrom::certificate) return std::nullopt;
    auto name = connection.certificate_name();
    if (!name) return std::nullopt;
    if (name->empty() || name->size() > 65'535 || !valid_utf8(*name))
        return Verdict{.reason = Reason::not_authorized,
                       .why = "its certificate has no common name that can be a user's"};
    return Verdict{.user = std::move(*name)};
}

void Shard::ask_for_verdict(Connection& connection, const Connect& connect) {
    const Ticket ticket = hold(connection, 0);
    const auto answer = [this, ticket](Verdict verdict) {
        send(Task([ticket, verdict = std::move(verdict)](Shard& shard) {
            shard.go_on_unless_gone(ticket, {.had_turn = true, .verdict = verdict});
        }));
    };
    gatekeeper_.judge(
        {std::string(connect.username.value_or("")), std::string(connect.password.value_or("")),
         std::string(connect.client_id), connection.address()},
        answer);
}

/// The log says why; the client is not told what would help it guess.
void Shard::turn_away(Connection& connection, const Connect& connect, const Verdict& verdict) {
    if (verdict.guessed) judge_guess(connection.visit().address, connect);
    const char* words = "it did not show who it is";
    if (verdict.reason == Reason::server_busy) words = "too many logins at once";
    if (verdict.reason == Reason::server_unavailable) words = "logins can't be checked now";
    broker_.refuse(connection, connect, verdict.reason, verdict.why, words);
}

void Shard::judge_guess(const Address& address, const Connect& connect) {
    const auto guess = fingerprint(connect.username.value_or(""), connect.password.value_or(""));
    if (!visitors_.failed(address, guess, monotonic_now())) return;
    spdlog::warn(
        "{} banned for ban-time: too many wrong passwords from there (ban-failures). DELETE "
        "/api/v1/bans?address={} lifts the ban; if it is a proxy's, use ?proxy-protocol",
        address.text(), address.text());
}

// -- how it behaves
// ----------------------------------------------------------------------------------

/// Two devices with one client id push each other out as fast as they can, unless each must wait.
Millis Shard::pause_of(const Connection& connection, std::string_view user, std::string_view client,
                       Millis now) {
    const Session* rival = broker_.find(user, client);
    if (!rival || !rival->link || rival->link->broken()) return 0;
    const auto time = conduct_.pause_before_takeover(user, client, now);
    if (time == 0) return 0;
    counters_.count(Limit::duel_takeovers);
    log_limited(spdlog::level::warn,
                "client {} of user {}: taken over again and again, now by {}: two devices seem to "
                "use this client id. It must wait for {} ms",
                quoted(client), quoted(user), connection.peer(), time);
    return time;
}

void Shard::pause(Connection& connection, Application application, Millis time) {
    application.has_paused = true;
    const Ticket ticket = hold(connection, time);
    const auto timer =
        std::make_shared<boost::asio::steady_timer>(io_, std::chrono::milliseconds(time));
    timer->async_wait([this, timer, ticket, application](boost::system::error_code error) {
        if (error) return;
        go_on_unless_gone(ticket, application);
        transport_.end_turn();
    });
}

void Shard::judge_conduct(const Session& session, const Ending& ending, Millis now) {
    if (ending.cause != Cause::connection_lost && ending.cause != Cause::kicked) return;
    if (!conduct_.broke_off(session.user.name, session.client, now)) return;
    spdlog::warn(
        "client {} of user {} banned for ban-time: it comes and goes all the time "
        "(ban-flaps). DELETE at /api/v1/bans lifts the ban",
        quoted(session.client), quoted(session.user.name));
}

// -- waiting
// -----------------------------------------------------------------------------------------

Shard::Ticket Shard::hold(Connection& connection, Millis wait) {
    connection.hold(wait);
    held_.emplace(++next_ticket_, &connection);
    return next_ticket_;
}

boost::intrusive_ptr<Connection> Shard::take_held(Ticket ticket) {
    const auto found = held_.find(ticket);
    auto connection = std::move(found->second);
    held_.erase(found);
    return connection;
}

void Shard::go_on(Ticket ticket, Application application) {
    take_held(ticket)->go_on(std::move(application));
}

/// False if the client did not wait for its turn.
bool Shard::go_on_unless_gone(Ticket ticket, Application application) {
    const auto connection = take_held(ticket);
    const bool there = connection->held();
    if (there)
        connection->go_on(std::move(application));
    else
        connection->end({Cause::connection_lost, Reason::success, "gone before its turn"});
    return there;
}

}  // namespace pulsegate
