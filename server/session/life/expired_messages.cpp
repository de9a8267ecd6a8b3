#include "server/session/life/expired_messages.h"

namespace pulsegate {

namespace {

/// The approximate number of messages that expire in one round; a queue is not divided.
constexpr std::uint64_t messages_a_turn = 16'384;

}  // namespace

/// Returns false if it stops because the round's work is used up.
bool ExpiredMessages::drop(User& user, std::uint64_t work_until, Millis now) {
    bool has_dropped = false;
    for (Device& device : user.devices) {
        has_dropped |= queues_.drop_expired(static_cast<Session&>(device), now);
        if (queues_.work() > work_until) return false;
    }
    if (has_dropped || !user.has_device()) keeper_.end_inbox_if_done(user, now);
    return true;
}

/// Returns the user, or null if it stops because the round's work is used up. A packed session is
/// unpacked only if a message has expired, and then the user has another entry.
const PresenceEntry* ExpiredMessages::drop(PresenceEntry& entry, std::uint64_t work_until,
                                           Millis now) {
    if (entry.is_packed && !static_cast<PackedRecord&>(entry).has_expired_messages(now))
        return &entry;
    User& user = presence_.unpacked(entry);
    return drop(user, work_until, now) ? &user : nullptr;
}

std::optional<PresencePosition> ExpiredMessages::drop_some(
    PresencePosition after, std::size_t most, Millis now,
    const std::function<void(const PresenceEntry&)>& done) {
    const auto work_until = queues_.work() + messages_a_turn;
    return presence_.visit_entries(after, most, [&](PresenceEntry& entry) {
        const PresenceEntry* const user = drop(entry, work_until, now);
        if (!user) return Visited::unfinished;
        if (done) done(*user);
        return Visited::done;
    });
}

void ExpiredMessages::sweep(Millis now) {
    sweep_ = drop_some(sweep_, presence_.users() / 60 + 1, now).value_or(PresencePosition());
}

}  // namespace pulsegate
