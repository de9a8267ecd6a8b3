#include "server/session/delivery/packed_sessions.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "server/session/state/memory_limits.h"
#include "server/session/state/packing.h"
#include "server/session/state/session.h"
#include "server/session/terms/option_bits.h"

namespace pulsegate {

PackedSessions::PackedSessions(const ShardContext& context, const Tables& tables,
                               const Rooms& rooms, PacketSender& packets)
    : interest_(tables.interest),
      presence_(tables.presence),
      sessions_(tables.sessions),
      router_(tables.router),
      rooms_(rooms),
      waiting_(packets.queues().totals()),
      journal_(context.journal),
      receipts_(context.receipts),
      away_for_(static_cast<Tick>(context.settings.packed_after / 1000)),
      look_ahead_(2 * away_for_) {
    presence_.unpack_by([this](PresenceEntry& entry) -> User& {
        return unpack(static_cast<PackedRecord&>(entry));
    });
}

// -- to unpack --

User& PackedSessions::unpack(PackedRecord& record) {
    thread_.assert_here();
    leave(record);
    User& user = *new User(record.user());  // presence owns it
    presence_.replace(record, user);
    Session& session = sessions_.find_or_create(user, std::string(record.client()), 0);
    user.devices.push_back(session);
    pulsegate::unpack(record, session, waiting_);
    if (const auto filter = record.filter(); !filter.empty()) {
        session.state.subscribe(router_, session, filter, options_of(record.options),
                                record.identifier);
        session.keep(cost_of_subscription(filter));
        // After `subscribe`, so that other shards never miss the filter.
        interest_.remove(filter, record.table);
    }
    sessions_.replace(record, session);
    PackedRecord::destroy(&record);
    return user;
}

Session& PackedSessions::session_of(Absence& absence) {
    if (!absence.is_packed) return static_cast<SessionExpiry&>(absence).session;
    User& user = unpack(static_cast<PackedRecord&>(absence));
    return static_cast<Session&>(user.devices.front());
}

// -- to pack --

void PackedSessions::sweep(Tick now, bool may_pack) {
    thread_.assert_here();
    do {
        if (!sweep_) sweep_ = Sweep{.end = presence_.latest(), .until = now + look_ahead_};
        const auto rest = presence_.visit_entries(sweep_->done, presence_.users() / 60 + 1,
                                                  [&](PresenceEntry& entry) {
                                                      pack_or_unpack(entry, now, may_pack);
                                                      return Visited::done;
                                                  });
        if (rest && *rest < sweep_->end) {
            sweep_->done = *rest;
            continue;
        }
        all_last_until_ = sweep_->until;
        sweep_.reset();
    } while (all_last_until_ < now);  // repeats only if the clock has jumped
}

void PackedSessions::pack_all(Tick now) {
    thread_.assert_here();
    presence_.visit_entries({}, SIZE_MAX, [&](PresenceEntry& entry) {
        if (!entry.is_packed) pack_if_idle(static_cast<User&>(entry), now);
        return Visited::done;
    });
}

void PackedSessions::pack_or_unpack(PresenceEntry& entry, Tick now, bool may_pack) {
    if (!entry.is_packed) {
        if (may_pack) pack_if_idle(static_cast<User&>(entry), now);
        return;
    }
    auto& record = static_cast<PackedRecord&>(entry);
    if (record.ends <= sweep_->until) unpack(record);
}

void PackedSessions::pack_if_idle(User& user, Tick now) {
    if (user.online() || user.sessions != 1) return;
    const auto& session = static_cast<const Session&>(user.devices.front());
    if (may_pack(session, now)) pack(static_cast<Session&>(user.devices.front()));
}

bool PackedSessions::may_pack(const Session& session, Tick now) const {
    if (!fits_record(session)) return false;
    const Tick ends = session.expiry_timer->ends;
    // The disconnect, as in tick_after.
    const std::int64_t went = std::int64_t{ends} - session.state.expiry() - 1;
    const bool is_long_away = went + away_for_ <= now;
    if (!is_long_away || ends <= now + look_ahead_) return false;
    const SubscriptionList& subscriptions = session.state.subscriptions();
    if (!subscriptions.empty() && by_filter_.contains(subscriptions.front().filter->text()))
        return false;
    return !rooms_.has_rooms(session.user.name) && is_in_store(session);
}

/// True if the store has the session, with the bodies of its messages.
bool PackedSessions::is_in_store(const Session& session) const {
    const auto is_safe = [&](const QueuedMessage& each) {
        return !each.has_body() ||
               (journal_.is_committed(each.body->unit) && !receipts_.is_collected(each.stamp));
    };
    return std::ranges::all_of(session.state.exchanges().outbox().queue(), is_safe);
}

void PackedSessions::pack(Session& session) {
    const std::unique_ptr<User> user(&session.user);
    PackedRecord& record = *pulsegate::pack(session);
    enter(record);  // before the filter is removed, so that other shards never miss it
    session.state.unsubscribe_all(router_);
    sessions_.replace(session, record);
    presence_.replace(*user, record);
}

/// Enters the record in the totals and tables.
void PackedSessions::enter(PackedRecord& record) {
    waiting_.messages += record.messages().size();
    waiting_.bytes += record.queued_bytes();
    if (record.filter().empty()) return;
    record.table = interest_.add(record.filter());
    by_filter_.insert(&record);
}

void PackedSessions::leave(PackedRecord& record) {
    waiting_.messages -= record.messages().size();
    waiting_.bytes -= record.queued_bytes();
    if (!record.filter().empty()) by_filter_.erase(&record);
}

// -- after a restart --

bool PackedSessions::may_restore(const PackedRecord::Texts& texts, Tick ends, Tick now) const {
    return ends > now + look_ahead_ && !presence_.has(texts.user) &&
           !rooms_.has_rooms(texts.user) && !by_filter_.contains(texts.filter);
}

void PackedSessions::restore(PackedRecord& record, Tick now) {
    thread_.assert_here();
    all_last_until_ = now + look_ahead_;
    enter(record);
    presence_.restore(record);
    sessions_.add(record);
}

}  // namespace pulsegate
