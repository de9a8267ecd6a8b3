#include "server/session/life/evictions.h"

namespace pulsegate {

namespace {

/// When the token of the session's login was issued. If the client is absent, only its will still
/// knows it.
std::optional<std::int64_t> token_issued(const Session& session) {
    if (session.authorization) return session.authorization->token_issued;
    const StoredWill* const will = session.link ? nullptr : session.state.will();
    return will ? will->token_issued : std::nullopt;
}

/// True if the client logged in after the administrator's request. If a login seems to be in the
/// future, the clock was set back meanwhile, and the login came before the request.
bool has_come_later(const Session& session, const Eviction& eviction) {
    return session.since > eviction.arrived_by && session.since <= wall_now();
}

/// True if the client logged in with a token that is still valid.
bool is_spared(const Session& session, const Eviction& eviction) {
    const auto since = eviction.tokens_spared_since;
    const auto issued = token_issued(session);
    return since && issued && *issued >= *since;
}

}  // namespace

bool Evictions::expire(Millis now) {
    const bool more_due = end_due(now);
    const bool more_in_store = make_room_in_store(now);
    judge_logins();
    const bool more_in_memory = make_room(now);
    expired_before_ = packets_.queues().expired_bytes();
    return more_in_store || more_in_memory || more_due || judged_logins_;
}

bool Evictions::end_due(Millis now) {
    const auto due = [&](Session& session, SessionTable::Due what) {
        if (what == SessionTable::Due::goes) return keeper_.end_awaited(session, now);
        if (what == SessionTable::Due::will) return wills_.publish(session, now);
        if (inboxes_.has_handed_out(session)) return inboxes_.begin_anew(session, now);
        ++counters_.sessions_expired;
        User& user = session.user;
        keeper_.end_disconnected(session, "its session expiry has passed", now);
        keeper_.pass_inbox_on(user, now);
    };
    const auto began_at = work();
    const auto may_go_on = [&] { return !is_used_up(began_at) && !fan_out_.is_behind(); };
    const Tick time = sessions_.time_at(now);
    bool more = sessions_.advance(time, 0, due);  // or the tick would begin anew
    for (std::size_t left = sessions_a_turn; more && left > 0 && may_go_on(); --left)
        more = sessions_.advance(time, 1, due);
    return more;
}

/// Checks some users in each round. If a user has more clients than one round can disconnect, the
/// next round continues with this user.
void Evictions::judge_logins() {
    constexpr std::size_t users_a_turn = 1000;
    if (!judged_logins_) return;
    std::size_t left = sessions_a_turn;
    judged_logins_ = presence_.visit_entries(*judged_logins_, users_a_turn, [&](auto& user) {
        if (user.is_packed) return Visited::done;
        for (Device& device : static_cast<User&>(user).devices) {
            auto& session = static_cast<Session&>(device);
            if (!session.link || authorizations_.is_valid(session.password_line)) continue;
            if (session.link->is_lost()) continue;  // it is ending already
            if (left == 0) return Visited::unfinished;
            --left;
            session.disconnect(Reason::not_authorized, revoked);
        }
        return Visited::done;
    });
}

Evicted Evictions::evict(const Eviction& eviction, Millis now) {
    Evicted evicted;
    User* const user = presence_.find(eviction.user);
    if (!user) return evicted;
    if (eviction.client) {
        Session* const session = sessions_.find(*user, *eviction.client);
        if (session) evict(*session, eviction, evicted, now);
    } else {
        evict_some(*user, eviction, evicted, now);
    }
    if (evicted.ended == 0) return evicted;
    keeper_.pass_inbox_on(*user, now);
    return evicted;
}

/// Evicts some of the user's clients. Connected clients are first in the list, and are gone at the
/// end of the turn.
void Evictions::evict_some(User& user, const Eviction& eviction, Evicted& evicted, Millis now) {
    const auto began_at = work();
    for (auto next = user.devices.begin(); next != user.devices.end();) {
        auto& session = static_cast<Session&>(*next++);
        if (evicted.clients() + evicted.leaving + evicted.wills >= sessions_a_turn) return;
        if (is_used_up(began_at)) return;
        if (!session.link && !eviction.ends_sessions && !eviction.drops_wills) return;
        if (!session.is_inbox()) evict(session, eviction, evicted, now);
    }
}

void Evictions::evict(Session& session, const Eviction& eviction, Evicted& evicted, Millis now) {
    if (has_come_later(session, eviction) || is_spared(session, eviction)) return;
    if (eviction.drops_wills && session.state.will()) {
        wills_.keep(session, nullptr);
        ++evicted.wills;
    }
    if (session.link) {
        if (eviction.ends_sessions) keeper_.end_with_connection(session);
        if (session.link->is_lost()) return;  // it is ending already
        if (session.link->is_ending()) {
            ++evicted.leaving;
            return;
        }
        ++evicted.disconnected;
        session.disconnect(Reason::administrative_action, eviction.why);
    } else if (eviction.ends_sessions) {
        keeper_.end_disconnected(session, eviction.why, now);
    }
    evicted.ended += eviction.ends_sessions;
}

}  // namespace pulsegate
