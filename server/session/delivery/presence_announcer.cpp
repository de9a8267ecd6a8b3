#include "server/session/delivery/presence_announcer.h"

#include <utility>

#include "server/message/topics.h"

namespace pulsegate {

void PresenceAnnouncer::arrived(Session& session, Millis now) {
    const bool is_new = !session.user.is_known();
    if (session.here)
        presence_.taken_over(session.user, session, session.since);
    else if (!presence_.arrive(session.user, session, session.since))
        return;
    if (is_new && journal_.is_on()) tell_when_stored(session.user, now);
    announce(session, 0, now);
}

void PresenceAnnouncer::departed(Session& session, Cause cause, Millis last_packet, Millis now) {
    const WallMillis wall = wall_now();
    const Millis silent = now - last_packet;
    if (presence_.depart(session.user, session, cause, wall, wall - silent))
        announce(session, silent, now);
}

void PresenceAnnouncer::announce(const Session& session, Millis silent, Millis now) {
    const User& user = session.user;
    const PresenceChange change{.time = wall_now(),
                                .user = user.name,
                                .online = user.online(),
                                .cause = user.cause,
                                .version = user.version,
                                .client = session.client,
                                .silent = silent};
    host_.record(change);
    events_.presence(change);
    if (journal_.is_on()) journal_.add_lazily(stored_presence(user));
    tell(user, now);
}

/// Its row follows in this turn. Who comes and goes meanwhile is told as online first, unless the
/// disk is in trouble: then that would be kept for long.
void PresenceAnnouncer::tell_when_stored(User& user, Millis now) {
    MessageRef online;
    if (!journal_.would_be_refused() && is_watched(user))
        online = presence_message(user, now, wall_now());
    user.is_untold = true;
    journal_.await({});
    new_users_.push_back({journal_.unit(), user.name, std::move(online)});
}

void PresenceAnnouncer::tell_of_new_users(Millis now) {
    for (; !new_users_.empty() && journal_.is_committed(new_users_.front().unit);
         new_users_.pop_front()) {
        const NewUser& known = new_users_.front();
        User* const user = presence_.find(known.name);
        if (!user || !user->is_untold) continue;
        user->is_untold = false;
        if (known.online) fan_out_.route(known.online, nullptr, now);
        if (!known.online || known.online->presence_version != user->version) tell(*user, now);
    }
}

void PresenceAnnouncer::tell(const User& user, Millis now) {
    if (user.is_untold || !is_watched(user)) return;
    if (const auto message = presence_message(user, now, wall_now()))
        fan_out_.route(message, nullptr, now);
}

/// Mostly nobody subscribes to it, and the message is what costs most of a change.
bool PresenceAnnouncer::is_watched(const User& user) const {
    const std::string name = presence_topic(user.name);
    const Interest::Topic topic(name);
    for (unsigned shard = 0; shard < place_.count; ++shard)
        if (host_.interest(shard).wants(topic)) return true;
    return false;
}

}  // namespace pulsegate
