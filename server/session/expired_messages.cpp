#include "server/session/expired_messages.h"

#include <cstdint>

namespace pulsegate {

void ExpiredMessages::drop(User& user, Millis now) {
    bool has_dropped = false;
    for (Device& device : user.devices)
        has_dropped |= sender_.queues().drop_expired(static_cast<Session&>(device), now);
    if (has_dropped || !user.has_device()) keeper_.end_inbox_if_done(user, now);
}

/// One that is packed is woken only if something has expired.
void ExpiredMessages::drop(PresenceEntry& entry, Millis now) {
    if (entry.is_dormant && !static_cast<DormantRecord&>(entry).has_expired_messages(now)) return;
    drop(presence_.awake(entry), now);
}

void ExpiredMessages::drop_all(Millis now) {
    room_logs_.drop_expired(now);
    presence_.visit_entries({}, SIZE_MAX, [&](PresenceEntry& entry) {
        drop(entry, now);
        return true;
    });
}

void ExpiredMessages::sweep(Millis now) {
    const auto drop_of_one = [&](PresenceEntry& entry) {
        drop(entry, now);
        return true;
    };
    const auto rest = presence_.visit_entries(sweep_, presence_.users() / 60 + 1, drop_of_one);
    sweep_ = rest.value_or(PresencePosition());
}

}  // namespace pulsegate
