#include "server/session/presence_announcer.h"

#include "server/topics.h"

namespace pulsegate {

void PresenceAnnouncer::arrived(Session& session, bool taken_over, Millis now) {
    if (taken_over)
        presence_.taken_over(session.user, session, session.since);
    else if (!presence_.arrive(session.user, session, session.since))
        return;
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
    if (!is_watched(user)) return;
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
