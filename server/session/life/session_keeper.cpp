#include "server/session/life/session_keeper.h"

#include <cstddef>
#include <utility>

#include "server/base/log.h"

namespace pulsegate {

void SessionKeeper::interrupt(Session& session, Millis now) {
    interrupt_exchanges(session, now);
    if (!session.expiry_timer) shared_.notify_groups(session, GroupMembership::Change::gives_back);
}

void SessionKeeper::stop(Session& session, Millis now) {
    interrupt_exchanges(session, now);
    shared_.notify_groups(session, GroupMembership::Change::goes_away);
}

void SessionKeeper::interrupt_exchanges(Session& session, Millis now) {
    packets_.stop(session);
    packets_.store().store_unstored(session, now);
    packets_.store().note_identifiers(session);
    replay_.note_sent(session);
    session.state.exchanges().change_outbox(&Outbox::interrupt);
    replay_.pause(session);
}

void SessionKeeper::resume(Session& session, Millis now) {
    shared_.notify_groups(session, GroupMembership::Change::comes_back);
    packets_.resume(session, now);
    if (session.replay) replay_.go_on(session, now);
}

void SessionKeeper::end_awaited(Session& session, Millis now) {
    journal_.add_lazily(PutSessionExpiry{session.state.owner,
                                         wall_now() + WallMillis{session.state.expiry()} * 1000,
                                         session.expiry_timer->position});
    if (SessionTable::will_due(session) <= sessions_.now()) wills_.publish(session, now);
}

void SessionKeeper::catch_up(Session& session, Millis now) {
    if (!rooms_.has_rooms(session.user.name)) return;
    rooms_.note_position_change();
    if (room_logs_.has_missed(session, now)) room_logs_.catch_up(session, now);
}

void SessionKeeper::first_device_came(User& user, Millis now) {
    if (room_logs_.has_missed(user.name, now))
        room_logs_.catch_up_inbox(inboxes_.open(user, now), now);
    rooms_.device_came(user.name);
}

void SessionKeeper::discard(Session& session, Millis now) {
    constexpr std::size_t messages_of_a_work = 16;  // freeing one takes little time
    work_ += session.state.subscription_count() +
             session.state.exchanges().outbox().waiting() / messages_of_a_work;
    shared_.notify_groups(session, GroupMembership::Change::leaves);
    const auto given_back = shared_.give_back(session, now);
    shared_.forget(session);
    subscriptions_.end_all(session);
    fan_out_.forget(session);
    const bool was_device = session.is_linked() && !session.is_inbox();
    session.unlink();  // so that its own will to the user's inbox does not go to this session
    if (was_device && !session.user.has_device()) rooms_.last_device_went(session.user.name);
    replay_.forget(session);
    packets_.stop(session);
    inboxes_.return_messages_of(session, now);
    if (session.is_inbox()) inboxes_.forget(session);
    end_owner(session, given_back, now);
    session.state.exchanges().clear();
}

void SessionKeeper::end_owner(Session& session, const std::vector<Stamp>& given_back, Millis now) {
    if (session.state.owner == 0) return;
    if (session.state.was_member()) {
        packets_.drop_all(session, given_back);
        shared_.retire(session.state.owner, now);
    } else {
        journal_.add(EndOwner{session.state.owner});
    }
    session.state.owner = 0;
    ended_.add(session.fingerprint());
}

void SessionKeeper::end_with_connection(Session& session) {
    session.state.set_expiry(0);
    if (session.state.owner != 0) store_owner(session);
}

void SessionKeeper::end_disconnected(Session& session, const char* why, Millis now) {
    packets_.queues().drop_expired(session, now);
    const auto queued = session.state.exchanges().outbox().waiting();
    const auto waiting = queued + (session.is_inbox() ? 0 : room_logs_.missed(session, now));
    counters_.dropped_session_ended += waiting;
    log_limited(waiting > 0 ? spdlog::level::warn : spdlog::level::info,
                "{}: session ended: {}; {} queued messages lost", session.logged(),
                LoggedReason{why}, waiting);
    if (!session.is_inbox())
        history_.add(session.user.name, {.kind = HistoryKind::session_ended,
                                         .time = wall_now(),
                                         .client = session.client,
                                         .why = why});
    discard(session, now);
    wills_.publish(session, now);
    sessions_.stop_expiry(session);
    sessions_.destroy(session);
}

void SessionKeeper::pass_inbox_on(User& user, Millis now) {
    inboxes_.hand_out(user, now);
    end_inbox_if_done(user, now);
}

void SessionKeeper::end_inbox_if_done(User& user, Millis now) {
    Session* const inbox = inboxes_.done(user);
    if (!inbox) return;
    discard(*inbox, now);
    sessions_.stop_expiry(*inbox);
    sessions_.destroy(*inbox);
}

void SessionKeeper::store_owner(const Session& session, std::uint32_t expiry) {
    journal_.add(PutOwner{.owner = session.state.owner,
                          .user = session.user.name,
                          .client = session.client,
                          .expiry = expiry,
                          .protocol = static_cast<std::uint8_t>(session.terms.version)});
}

}  // namespace pulsegate
