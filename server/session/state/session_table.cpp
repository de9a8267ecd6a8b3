#include "server/session/state/session_table.h"

#include <algorithm>
#include <utility>

#include "server/base/hash.h"

namespace pulsegate {

namespace {

/// At the quota, a user with more sessions than this loses one of its own, and not one of another
/// user.
constexpr std::uint32_t most_of_one_user = 100;

/// Approximate memory of the session of a disconnected client, without its queue.
std::uint32_t size_of(const Session& session) {
    const auto size = 500 + session.client.size() + session.user.name.size() + session.kept() +
                      session.state.exchanges().bytes_of_unreleased();
    // The texts have at most 65,535 bytes, and 16 MB are kept.
    return static_cast<std::uint32_t>(size);
}

}  // namespace

std::size_t SessionTable::Hash::operator()(const Key& key) const {
    return keyed_hash(reinterpret_cast<std::uintptr_t>(&key.user), key.client);
}

SessionTable::SessionTable(const BrokerSettings& settings, ShardPlace place, GatewayTotals& totals)
    : settings_(settings),
      place_(place),
      totals_(totals),
      wills_(totals.wills),
      next_id_(place.homes.first_session(place.index)) {}

SessionTable::~SessionTable() {
    totals_.disconnected -= disconnected_;
    totals_.disconnected_bytes -= disconnected_bytes_;
}

/// Counts sessions of disconnected clients, for this shard and for the whole gateway.
void SessionTable::count(std::ptrdiff_t sessions, std::ptrdiff_t bytes) {
    disconnected_ += static_cast<std::size_t>(sessions);
    disconnected_bytes_ += static_cast<std::size_t>(bytes);
    totals_.disconnected += static_cast<std::size_t>(sessions);
    totals_.disconnected_bytes += static_cast<std::size_t>(bytes);
}

Session* SessionTable::find(const User& user, std::string_view client) const {
    thread_.assert_here();
    const auto found = sessions_.find(Key{user, client});
    return found == sessions_.end() ? nullptr : found->get();
}

Session& SessionTable::find_or_create(User& user, std::string client, WallMillis wall) {
    thread_.assert_here();
    if (Session* known = find(user, client)) return *known;
    auto created =
        std::make_unique<Session>(std::exchange(next_id_, place_.homes.session_after(next_id_)),
                                  user, std::move(client), wall);
    return **sessions_.insert(std::move(created)).first;
}

void SessionTable::destroy(Session& session) {
    thread_.assert_here();
    sessions_.erase(sessions_.find(Key{session.user, session.client}));
}

void SessionTable::start_expiry(Session& session, Millis now) {
    thread_.assert_here();
    const std::uint32_t seconds = session.state.expiry();
    const Millis begins = now - postponed_;
    const Tick ends = tick_after(begins + Millis{seconds} * 1000);
    session.expiry_timer = std::make_unique<SessionExpiry>(session, ends);
    session.expiry_timer->bytes = size_of(session) & 0x3fff'ffff;
    // Compares seconds, not ticks: the longest Will Delay would overflow a tick.
    const StoredWill* will = session.state.will();
    const auto delay = will ? std::min(will->delay, seconds) : seconds;
    // A client may have gone before this process and its clock began, so its will may have been due
    // before that.
    const auto due = std::max<Millis>(begins + Millis{delay} * 1000, 0);
    expiry_wheel_.schedule(*session.expiry_timer, tick_after(due));
    longest_disconnected_.push_back(*session.expiry_timer);
    count(1, session.expiry_timer->bytes);
}

void SessionTable::await(Session& session, Millis until) {
    start_expiry(session, until);
    session.expiry_timer->is_awaited = true;
    expiry_wheel_.schedule(*session.expiry_timer, tick_after(until - postponed_));
}

Tick SessionTable::will_due(const Session& session) {
    const StoredWill* const will = session.state.will();
    const std::uint32_t seconds = session.state.expiry();
    const Tick left = will && will->delay < seconds ? seconds - will->delay : 0;
    return session.expiry_timer->ends - left;
}

/// Returns the event of the session that is due now, and sets its timer for the next one.
SessionTable::Due SessionTable::next(SessionExpiry& expiry) {
    const Tick now = expiry_wheel_.now();
    if (expiry.is_awaited) {
        expiry.is_awaited = false;
        const Tick will = will_due(expiry.session);
        expiry_wheel_.schedule(expiry, will > now ? will : expiry.ends);
        return Due::goes;
    }
    if (now >= expiry.ends) return Due::end;
    expiry_wheel_.schedule(expiry, expiry.ends);
    return Due::will;
}

void SessionTable::replace(Session& session, PackedRecord& record) {
    thread_.assert_here();
    count(0, std::ptrdiff_t{record.bytes} - session.expiry_timer->bytes);
    longest_disconnected_.insert(longest_disconnected_.iterator_to(*session.expiry_timer), record);
    ++packed_;
    destroy(session);
}

void SessionTable::replace(PackedRecord& record, Session& session) {
    thread_.assert_here();
    session.expiry_timer = std::make_unique<SessionExpiry>(session, record.ends);
    session.expiry_timer->bytes = size_of(session) & 0x3fff'ffff;
    expiry_wheel_.schedule(*session.expiry_timer, record.ends);
    count(0, std::ptrdiff_t{session.expiry_timer->bytes} - record.bytes);
    longest_disconnected_.insert(longest_disconnected_.iterator_to(record), *session.expiry_timer);
    longest_disconnected_.erase(longest_disconnected_.iterator_to(record));
    --packed_;
}

void SessionTable::add(PackedRecord& record) {
    thread_.assert_here();
    longest_disconnected_.push_back(record);
    ++packed_;
    count(1, record.bytes);
}

void SessionTable::stop_expiry(Session& session) {
    thread_.assert_here();
    if (!session.expiry_timer) return;
    count(-1, -std::ptrdiff_t{session.expiry_timer->bytes});
    session.expiry_timer.reset();
}

Absence* SessionTable::over_quota(Session& latest) {
    if (totals_.disconnected <= settings_.persistent_session_quota) return nullptr;
    // A user that invents client ids must not end the sessions of others.
    const bool over_share = latest.user.sessions > most_of_one_user;
    return over_share ? latest.expiry_timer.get() : &longest_disconnected_.front();
}

bool SessionTable::over_budget(std::size_t queued_bytes) const {
    return totals_.disconnected_bytes + queued_bytes > settings_.persistent_session_bytes;
}

std::size_t SessionTable::behind() const {
    return static_cast<std::size_t>(
        std::count_if(sessions_.begin(), sessions_.end(), [](const Pointer& session) {
            if (!session->link) return false;
            return session->replay || session->state.exchanges().outbox().unsent() ||
                   session->link->backlog() > 0;
        }));
}

}  // namespace pulsegate
