#include "server/session/life/disconnects.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/session/life/connect_agreement.h"

namespace pulsegate {

void Disconnects::receive(Session& session, const Disconnect& disconnect) {
    if (const auto asked = disconnect.properties.number(Property::session_expiry_interval)) {
        const auto most = longest_session_expiry(settings_);
        if (session.state.expiry() == 0 && *asked != 0 && most != 0)
            return session.disconnect(Reason::protocol_error,
                                      "DISCONNECT sets a session expiry although CONNECT set none");
        session.state.set_expiry(std::min(*asked, most));
        if (session.state.owner != 0) keeper_.store_owner(session);
    }
    // Only a normal disconnection cancels the will (MQTT 5.0, 3.1.2.5): 0x04 asks for the will to
    // be published, and the other reasons are errors.
    if (disconnect.reason == Reason::success) wills_.keep(session, nullptr);
    session.link->end({Cause::logout, Reason::success, "the client disconnected"});
}

void Disconnects::end(Session& session, const Ending& ending, Millis now) {
    const PresenceAnnouncer::Ended ended{ending.cause, session.last_packet(), session.limit()};
    const bool was_accepted = session.here;
    tell_history(session, ending, now);
    answers_.forget(session);
    session.link->session = nullptr;
    session.link = nullptr;
    session.forget_aliases();
    session.authorization.reset();

    const bool drained = ending.cause == Cause::drained;
    const bool stops = drained || ending.cause == Cause::shutdown;
    const bool outlives_process = session.state.owner != 0 || !stops;
    const bool survives = session.state.expiry() > 0 && outlives_process;
    if (!survives) {
        keeper_.discard(session, now);
    } else if (stops && !drained) {
        keeper_.stop(session, now);
    } else {
        keeper_.interrupt(session, now);
        replay_.connection_ended(session, ended.last_packet, ended.limit, now);
    }
    // If its login was not accepted, this is the will of an earlier connection. While its user is
    // awaited, the client has its limit of silence to come back again.
    const StoredWill* const will = session.state.will();
    const bool waits_again = !stops && will && survives && !was_accepted && session.user.is_awaited;
    const bool is_due = will && (!survives || will->delay == 0);
    if (!stops && is_due && !waits_again) wills_.publish(session, now);

    announcer_.departed(session, ended, now);
    User& user = session.user;
    if (!survives) sessions_.destroy(session);
    keeper_.pass_inbox_on(user, now);
    if (!survives) return;
    if (drained || waits_again)
        sessions_.await(session, now + ended.limit);
    else
        sessions_.start_expiry(session, now);
    const Stamp position = rooms_.has_rooms(user.name) ? rooms_.position_now() : 0;
    session.expiry_timer->position = position;
    if (stops) return leave_to_next_start(session);
    const bool is_stored = session.state.owner != 0;
    if (is_stored && waits_again)
        leave_to_next_start(session);
    else if (is_stored)
        journal_.add_lazily(PutSessionExpiry{
            session.state.owner, wall_now() + WallMillis{session.state.expiry()} * 1000, position});
    end_surplus(session, now);
}

/// Ends a session if there are too many. An inbox from which a device has messages is skipped.
void Disconnects::end_surplus(Session& session, Millis now) {
    constexpr int inboxes_skipped = 16;
    for (int left = inboxes_skipped; left > 0; --left) {
        Absence* const surplus = sessions_.over_quota(session);
        if (!surplus) return;
        Session& oldest = packed_.session_of(*surplus);
        if (inboxes_.has_handed_out(oldest)) {
            inboxes_.begin_anew(oldest, now);
            continue;
        }
        ++counters_.sessions_over_quota;
        User& user = oldest.user;
        keeper_.end_disconnected(oldest, "persistent-session-quota is exceeded", now);
        return keeper_.pass_inbox_on(user, now);
    }
}

void Disconnects::tell_history(const Session& session, const Ending& ending, Millis now) {
    if (!history_.is_on()) return;
    history_.add(session.user.name, {.kind = HistoryKind::ended,
                                     .time = wall_now(),
                                     .silence = now - session.last_packet(),
                                     .cause = ending.cause,
                                     .reason = ending.reason,
                                     .version = session.terms.version,
                                     .client = session.client,
                                     .why = ending.why,
                                     .link = session.link});
}

/// The session's time begins with the next start, as after a crash. So does the delay of its will:
/// a server that stops may delay wills until then (MQTT 5.0, 3.1.2.5). Unlike after a crash, the
/// store knows that the client has gone, and which messages it was sent. A drained session is
/// awaited, and so is one whose client was lost before its login was accepted. If this process does
/// not end, the session's time begins when its limit of silence has passed.
void Disconnects::leave_to_next_start(const Session& session) {
    journal_.add_lazily(
        PutSessionExpiry{.owner = session.state.owner, .position = session.expiry_timer->position});
}

/// Also ends logins that still wait for the store. Otherwise a user could come online after all
/// users were announced as offline.
void Disconnects::announce_shutdown(Millis now) {
    const Ending stopped{Cause::shutdown, Reason::server_shutting_down,
                         "the server is shutting down"};
    std::vector<Session*> connected;  // copied, because announcing may unpack watchers
    sessions_.for_each([&](Session& session) {
        if (session.link) connected.push_back(&session);
    });
    for (Session* const each : connected) {
        announcer_.departed(*each, {Cause::shutdown, each->last_packet(), each->limit()}, now);
        if (each->awaits_connack) each->link->end(stopped);
    }
    announcer_.end_awaited(now);
}

}  // namespace pulsegate
