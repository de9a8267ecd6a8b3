// Decides which sessions end when memory or the disk is short.
#include <malloc.h>

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/session/life/evictions.h"

namespace pulsegate {

namespace {

/// A user with more bytes may lose sessions, however few other users there are.
constexpr std::size_t unfair = 64 * 1024 * 1024;

/// If the memory of the whole process is short, a user with fewer bytes loses no session.
constexpr std::size_t worth_ending = 8 * 1024 * 1024;

struct BytesInMemory {
    std::size_t operator()(const PackedRecord& record) const {
        return record.bytes + record.bytes_of_entries();
    }
    std::size_t operator()(const User& user) const {
        std::size_t sum = user.kept;
        for (const Device& device : user.devices) {
            const auto& session = static_cast<const Session&>(device);
            if (session.is_inbox()) continue;  // it is charged to the senders of its messages
            const Exchanges& exchanges = session.state.exchanges();
            sum += exchanges.bytes_of_unreleased() + exchanges.outbox().bytes_in_memory();
            if (!session.link) sum += sizeof(Session) + session.client.size();
        }
        return sum;
    }
};

/// The bytes of everything that waits for the user's clients.
struct BytesWaiting {
    std::size_t operator()(const PackedRecord& record) const { return record.queued_bytes(); }
    std::size_t operator()(const User& user) const {
        std::size_t sum = 0;
        for (const Device& device : user.devices) {
            const auto& session = static_cast<const Session&>(device);
            if (session.is_inbox()) continue;
            sum += session.state.exchanges().outbox().queued_bytes();
        }
        return sum;
    }
};

template <class Bytes>
std::size_t bytes_held(const PresenceEntry& user) {
    return user.is_packed ? Bytes()(static_cast<const PackedRecord&>(user))
                          : Bytes()(static_cast<const User&>(user));
}

constexpr HeldBytes in_memory{&bytes_held<BytesInMemory>, &Outbox::bytes_in_memory, true};
/// The same without bodies in inboxes, which can be left to the store.
constexpr HeldBytes in_memory_with_store{in_memory.of_user, in_memory.of_room, false};
constexpr HeldBytes waiting{&bytes_held<BytesWaiting>, &Outbox::queued_bytes, true};

/// The largest holders of memory: a user with sessions, a room, and a sender of messages in
/// inboxes.
struct Takers {
    const Holder& holder;
    const RoomLogs::Largest& log;
    const InboxSenders::Largest& inboxes;

    std::size_t most() const { return std::max({holder.bytes, log.bytes, inboxes.bytes}); }
    std::size_t sum() const { return holder.sum + log.sum + inboxes.sum; }
    unsigned holders() const { return holder.holders + inboxes.holders; }
    /// Do rooms pay? They do if a room takes more than each user, or if all rooms take more than
    /// all users and no user exceeds a fair share.
    bool rooms_pay(std::size_t fair) const {
        const auto of_user = std::max(holder.bytes, inboxes.bytes);
        return log.bytes > of_user || (log.sum > holder.sum + inboxes.sum && of_user <= fair);
    }
};

/// True if as many bytes have expired since the search began as halving the largest holder would
/// free. Then the next measurement may show that this was enough. Fewer bytes must not delay the
/// eviction.
bool is_worth_waiting(std::uint64_t expired, const Takers& takers) {
    return expired > 0 && 2 * expired >= takers.most();
}

}  // namespace

/// Continues a search, or begins one; returns nothing until it is done.
std::optional<HolderSearch> Evictions::search(std::optional<HolderSearch>& search,
                                              HeldBytes counted, Millis now) {
    if (!search) search.emplace(counted, expired_before_);
    if (!search->go_on(expired_, room_logs_, inboxes_, now)) return std::nullopt;
    std::optional<HolderSearch> done(std::move(*search));
    search.reset();
    return done;
}

/// Returns true if there is more to do.
bool Evictions::make_room_in_store(Millis now) {
    constexpr Millis until_it_shows = 5000;
    if (!memory_.is_store_full() || now < next_room_in_store_) {
        search_in_store_.reset();
        return false;
    }
    const auto found = search(search_in_store_, waiting, now);
    if (!found) return true;
    const Takers takers{
        .holder = found->holder(), .log = found->log(), .inboxes = found->inboxes()};
    if (takers.most() <= worth_ending && !takers.rooms_pay(worth_ending)) return false;
    next_room_in_store_ = now + until_it_shows;
    if (is_worth_waiting(bytes_expired_since(*found), takers)) return false;
    if (takers.rooms_pay(worth_ending))
        room_logs_.halve(takers.log.topic, "max-data-bytes is exceeded, and most waits in it", now);
    else if (takers.inboxes.bytes > takers.holder.bytes)
        inboxes_.drop_some(takers.inboxes, "max-data-bytes is exceeded, and it has most", now);
    else
        end_largest(takers.holder.user, "max-data-bytes is exceeded, and most waits for its user",
                    now);
    return false;
}

/// True if all queues, with the sessions of disconnected clients, take more than
/// persistent-session-bytes.
bool Evictions::is_over_budget() const {
    const auto bodies = bytes_of_messages() - std::min(bytes_of_messages(), retained_.bytes());
    return sessions_.over_budget(bodies + packets_.queues().bytes_of_all_entries());
}

/// A user with no more than this many bytes never pays. If all sessions together take little, other
/// data fills the memory. If they take much although each takes little, users above the average
/// pay.
std::size_t Evictions::fair_share(std::size_t sum, unsigned holders, bool is_short) const {
    const std::size_t each = std::max(holders, 1u);
    if (!is_short)
        return std::min(settings_.persistent_session_bytes / place_.homes.shards() / each, unfair);
    const bool is_little = sum * place_.homes.shards() < settings_.persistent_session_bytes / 4;
    return is_little ? worth_ending : std::min(worth_ending, (sum - 1) / each);
}

/// When memory is short, expired messages are dropped first. If that is not enough, the largest
/// holder pays, but no user with at most a fair share. Returns true if there is more to do.
bool Evictions::make_room(Millis now) {
    const bool is_short = memory_.used_up();
    if (!is_short && !is_over_budget()) {  // the shortage is over
        search_in_memory_.reset();
        return false;
    }
    const auto& counted = journal_.is_on() ? in_memory_with_store : in_memory;
    const auto found = search(search_in_memory_, counted, now);
    if (!found) return true;
    if (!is_short && !is_over_budget()) return false;
    const Takers takers{
        .holder = found->holder(), .log = found->log(), .inboxes = found->inboxes()};
    if (is_short && is_worth_waiting(bytes_expired_since(*found), takers)) {
        malloc_trim(0);
        return false;
    }
    const auto fair = fair_share(takers.sum(), takers.holders(), is_short);
    const bool rooms_pay = takers.rooms_pay(fair);
    if (!rooms_pay && std::max(takers.holder.bytes, takers.inboxes.bytes) <= fair) return false;
    const char* const why = is_short ? "memory-budget is nearly used up, and it takes most"
                                     : "persistent-session-bytes is exceeded, and it takes most";
    if (rooms_pay)
        room_logs_.halve(takers.log.topic, why, now);
    else if (takers.inboxes.bytes > takers.holder.bytes)
        inboxes_.drop_some(takers.inboxes, why, now);
    else
        end_largest(takers.holder.user,
                    is_short ? "memory-budget is nearly used up, and its user takes most"
                             : "persistent-session-bytes is exceeded, and its user takes most",
                    now);
    if (is_short)
        malloc_trim(0);  // otherwise the allocator keeps the memory, and the next user pays, too
    return !is_short;    // the shortage is measured once a second
}

/// Ends the user's sessions, a few in each turn. Sessions of disconnected clients end at once, the
/// others end with their connections.
void Evictions::end_largest(const std::string& name, const char* why, Millis now) {
    User* const user = presence_.find(name);
    if (!user) return;
    const auto began_at = work();
    std::size_t left = sessions_a_turn;
    for (auto next = user->devices.begin(); next != user->devices.end() && left > 0; --left) {
        if (is_used_up(began_at)) break;
        auto& session = static_cast<Session&>(*next++);
        if (session.is_inbox()) continue;  // it is charged to the senders of its messages
        ++counters_.sessions_over_quota;
        if (!session.link) {
            keeper_.end_disconnected(session, why, now);
            continue;
        }
        session.state.set_expiry(0);
        session.disconnect(Reason::quota_exceeded, why);
    }
    keeper_.pass_inbox_on(*user, now);
}

}  // namespace pulsegate
