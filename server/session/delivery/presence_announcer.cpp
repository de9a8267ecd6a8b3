#include "server/session/delivery/presence_announcer.h"

#include <limits>
#include <utility>

#include "server/message/topics.h"

namespace pulsegate {

void PresenceAnnouncer::arrived(Session& session, Millis now) {
    User& user = session.user;
    const bool is_new = !user.is_known();
    const bool was_awaited = user.is_awaited;
    const Millis longest = user.here > 0 ? user.longest_limit() : 0;
    if (session.here)
        presence_.taken_over(user, session, session.since);
    else if (!presence_.arrive(user, session, session.since)) {
        if (was_awaited || session.limit() > longest) store(user);
        return;
    }
    if (is_new && journal_.is_on()) tell_when_stored(user, now);
    announce(user, session.client, 0, now);
}

void PresenceAnnouncer::departed(Session& session, const Ended& ended, Millis now) {
    const User& user = session.user;
    const bool was_here = session.here;
    const WallMillis wall = wall_now();
    const Millis silent = now - ended.last_packet;
    if (ended.cause == Cause::drained) {
        const bool is_awaited = presence_.leave(session.user, session, wall, wall - silent,
                                                tick_after(now + ended.limit));
        // Stores the new version. The stored limit stays, because a device that left earlier may
        // have a longer one.
        if (is_awaited) store(user, PutUser::limit_as_stored);
        return;
    }
    if (presence_.depart(session.user, session, ended.cause, wall, wall - silent))
        announce(user, session.client, silent, now);
    else if (was_here && ended.limit > user.longest_limit())
        store(user);
}

/// Takes a limited number of users per call. A user takes some microseconds, more if it is watched.
bool PresenceAnnouncer::lose_awaited(Millis now) {
    constexpr std::size_t users_a_turn = 256;
    return end_awaited(tick_at(now), users_a_turn, Cause::node_lost, now);
}

void PresenceAnnouncer::end_awaited(Millis now) {
    constexpr auto all = std::numeric_limits<std::size_t>::max();
    static_cast<void>(end_awaited(std::numeric_limits<Tick>::max(), all, Cause::shutdown, now));
}

bool PresenceAnnouncer::end_awaited(Tick upto, std::size_t most, Cause cause, Millis now) {
    return presence_.end_awaited(
        upto, most, cause, wall_now(),
        [&](const User& user, Millis silent) { announce(user, {}, silent, now); });
}

void PresenceAnnouncer::announce(const User& user, const std::string& client, Millis silent,
                                 Millis now) {
    const PresenceChange change{.time = wall_now(),
                                .user = user.name,
                                .online = user.online(),
                                .cause = user.cause,
                                .version = user.version,
                                .client = client,
                                .silent = silent};
    host_.record(change);
    events_.presence(change);
    store(user);
    tell(user, now);
}

void PresenceAnnouncer::store(const User& user) {
    store(user, static_cast<std::uint32_t>(user.longest_limit()));
}

void PresenceAnnouncer::store(const User& user, std::uint32_t limit) {
    if (!journal_.is_on()) return;
    PutUser row = stored_presence(user);
    row.limit = limit;
    journal_.add_lazily(std::move(row));
}

/// Tells watchers about a new user only when the user's first row is stored; this round adds the
/// row. A user that comes and goes before that is reported as online first. If the disk is in
/// trouble, this report is left out, because it would be kept for a long time.
void PresenceAnnouncer::tell_when_stored(User& user, Millis now) {
    MessageRef online;
    if (!journal_.would_be_refused() && is_watched(user))
        online = presence_message(user, now, wall_now());
    user.is_unannounced = true;
    journal_.await({});
    new_users_.push_back({journal_.unit(), user.name, std::move(online)});
}

void PresenceAnnouncer::tell_of_new_users(Millis now) {
    for (; !new_users_.empty() && journal_.is_committed(new_users_.front().unit);
         new_users_.pop_front()) {
        const NewUser& known = new_users_.front();
        User* const user = presence_.find(known.name);
        if (!user || !user->is_unannounced) continue;
        user->is_unannounced = false;
        if (known.online) fan_out_.route(known.online, nullptr, now);
        if (!known.online || known.online->presence_version != user->version) tell(*user, now);
    }
}

void PresenceAnnouncer::tell(const User& user, Millis now) {
    if (user.is_unannounced || !is_watched(user)) return;
    if (const auto message = presence_message(user, now, wall_now()))
        fan_out_.route(message, nullptr, now);
}

/// Usually the user has no watchers, and the message is the most expensive part of a change.
bool PresenceAnnouncer::is_watched(const User& user) const {
    const std::string name = presence_topic(user.name);
    const Interest::Topic topic(name);
    for (unsigned shard = 0; shard < place_.homes.shards(); ++shard)
        if (host_.interest(shard).may_match(topic)) return true;
    return false;
}

}  // namespace pulsegate
