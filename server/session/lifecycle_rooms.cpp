// What waits in the rooms of those who come back.
#include "server/session/lifecycle.h"

namespace pulsegate {

/// It is stored with the end of its absence.
void Lifecycle::catch_up(Session& session, Millis now) {
    rooms_.place_changes();
    if (!room_logs_.has_missed(session)) return;
    while (fan_out_.unfinished()) fan_out_.go_on(now);  // what is older may be among it
    room_logs_.catch_up(session);
}

/// What the user's rooms have for it goes into the inbox, and from there to the device.
void Lifecycle::welcome_first_device(User& user, Millis now) {
    if (room_logs_.has_missed(user.name))
        room_logs_.catch_up_inbox(inboxes_.open(user, Inboxes::by_rooms, now));
    rooms_.device_came(user.name);
}

}  // namespace pulsegate
