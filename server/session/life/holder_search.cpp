#include "server/session/life/holder_search.h"

namespace pulsegate {

namespace {

constexpr std::size_t users_a_turn = 250;

}  // namespace

bool HolderSearch::go_on(ExpiredMessages& expired, RoomLogs& logs, const Inboxes& inboxes,
                         Millis now) {
    if (has_all_logs_) return inboxes.find_largest(inboxes_, counted_.has_bodies_of_inboxes);
    if (!next_user_) {
        has_all_logs_ = logs.find_largest(log_, counted_.of_room, now);
        return false;
    }
    next_user_ = expired.drop_some(*next_user_, users_a_turn, now,
                                   [this](const PresenceEntry& user) { count(user); });
    return false;
}

/// If two users have equally many bytes, the user that was counted first stays the holder.
void HolderSearch::count(const PresenceEntry& user) {
    const std::size_t bytes = counted_.of_user(user);
    holder_.sum += bytes;
    holder_.holders += bytes > 0;
    if (bytes <= holder_.bytes) return;
    holder_.user = user.user_name();
    holder_.bytes = bytes;
}

}  // namespace pulsegate
