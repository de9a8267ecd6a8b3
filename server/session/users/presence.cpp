#include "server/session/users/presence.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/hash.h"
#include "server/message/stored_floor.h"
#include "server/message/topics.h"
#include "server/session/terms/recorded_name.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

/// A user of a whole fleet may have thousands of devices. Messages list the first ones only.
constexpr std::size_t devices_listed = 20;
constexpr std::size_t names_listed = 16 * 1024;  ///< bytes of client ids

/// If the names of all users exceed this sum, users that were never online for a minute are
/// forgotten after a minute.
constexpr std::size_t most_name_bytes = 64 * 1024 * 1024;
constexpr Millis a_minute = 60'000;

/// The minimum number of changes of a user that can be counted between the clock and the stored
/// floor.
constexpr std::uint64_t room_to_count = 10'000;

/// The greatest version from the clock. A clock before 1970 would make greater ones, which few
/// readers of JSON accept as numbers.
constexpr std::uint64_t greatest_version = time_of(UINT64_MAX);

/// Does the user's last packet lie in the future, because the clock was set back? A time that is
/// rounded up to seconds does not.
bool is_seen_in_future(const PresenceEntry& user, WallMillis now) {
    return user.last_seen() >= now + 1000;
}

/// The time of the user's last packet, if one of its devices was last seen then.
WallMillis latest_seen(const PresenceEntry& user, WallMillis last_seen, WallMillis now) {
    if (is_seen_in_future(user, now)) return std::min(last_seen, now);
    return std::min(std::max(user.last_seen(), last_seen), now);
}

/// Finds users by a position.
struct ByPosition {
    bool operator()(PresencePosition position, const PresenceEntry& user) const {
        if (position.version != user.version) return position.version < user.version;
        return position < user.position();
    }
    bool operator()(const PresenceEntry& user, PresencePosition position) const {
        if (position.version != user.version) return user.version < position.version;
        return user.position() < position;
    }
};

void dispose(PresenceEntry* entry) {
    if (entry->is_packed)
        PackedRecord::destroy(static_cast<PackedRecord*>(entry));
    else
        delete static_cast<User*>(entry);
}

/// Shows packed users as a copy without devices.
template <class Result>
Result show_to(const std::function<Result(User&)>& visitor, PresenceEntry& entry) {
    if (!entry.is_packed) return visitor(static_cast<User&>(entry));
    User copy(entry.user_name());
    copy.copy_presence(entry);
    return visitor(copy);
}

const char* state_name(bool online) { return online ? "online" : "offline"; }

}  // namespace

Presence::~Presence() { by_change_.clear_and_dispose(dispose); }

void Presence::replace(PresenceEntry& old, PresenceEntry& replacement) {
    thread_.assert_here();
    replacement.copy_presence(old);
    by_name_.replace(old, replacement);
    by_change_.replace_node(by_change_.iterator_to(old), replacement);
}

User* Presence::find(std::string_view name) const {
    thread_.assert_here();
    PresenceEntry* const found = by_name_.find(name);
    return found ? &unpacked(*found) : nullptr;
}

User& Presence::find_or_create(std::string_view name) {
    thread_.assert_here();
    if (User* known = find(name)) return *known;
    auto created = std::make_unique<User>(name);
    created->version = ++created_;
    by_name_.insert(*created);
    name_bytes_ += name.size();
    insert_by_change(*created);
    return *created.release();
}

void Presence::restore(const PutUser& stored, Tick awaited_until) {
    PresenceEntry* const known = by_name_.find(stored.name);
    PresenceEntry& user = known ? *known : restore(stored.name);
    user.stayed = true;
    user.set_since(stored.since, stored.last_seen);
    const auto version = stored.version <= greatest_version ? stored.version : 0;
    user.version = std::max({user.version, version, version_floor_});
    user.cause = static_cast<Cause>(stored.cause);
    if (!means_online(user.cause)) return;
    user.is_awaited = true;
    ++online_;
    await(user, awaited_until);
}

User& Presence::restore(std::string_view name) {
    if (User* known = find(name)) return *known;
    auto* const restored = new User(name);
    restore(*restored);
    return *restored;
}

void Presence::restore(PresenceEntry& entry) {
    by_name_.insert(entry);
    name_bytes_ += entry.user_name().size();
    by_change_.push_back(entry);
}

/// Sorting all users once takes a fifth of the time of moving a million of them to their places one
/// by one. The sort keys are copied, because the users are scattered in memory, and after a crash
/// most of them have the same version.
void Presence::finish_restoring() {
    std::vector<std::pair<PresencePosition, PresenceEntry*>> users;
    users.reserve(by_change_.size());
    for (PresenceEntry& user : by_change_) users.emplace_back(user.position(), &user);
    by_change_.clear();
    std::ranges::sort(users, [](const auto& a, const auto& b) {
        if (a.first < b.first) return true;
        return !(b.first < a.first) && *a.second < *b.second;
    });
    for (const auto& [position, user] : users) by_change_.push_back(*user);
}

bool Presence::arrive(User& user, Device& device, WallMillis now) {
    thread_.assert_here();
    const bool was_online = user.online();
    device.here = true;
    ++user.here;
    user.is_awaited = false;
    to_front(user, device);
    if (was_online) return false;
    ++online_;
    user.set_since(now, now);
    change(user, Cause::login, now);
    return true;
}

void Presence::taken_over(User& user, Device& device, WallMillis now) {
    thread_.assert_here();
    to_front(user, device);
    change(user, Cause::taken_over, now);
}

bool Presence::depart(User& user, Device& device, Cause cause, WallMillis now,
                      WallMillis last_seen) {
    thread_.assert_here();
    if (!to_back(user, device)) return false;
    const auto seen = latest_seen(user, last_seen, now);
    if (user.online()) {
        user.set_since(user.since, seen);
        return false;
    }
    --online_;
    user.stayed |= now - user.since >= a_minute;
    user.set_since(now, seen);
    change(user, cause, now);
    return true;
}

/// Disconnects the device. If it was the last one, the version grows, but nobody is told. A timer
/// of an earlier wait has an older version, so it cannot end this wait.
bool Presence::leave(User& user, Device& device, WallMillis now, WallMillis last_seen, Tick until) {
    thread_.assert_here();
    if (!to_back(user, device)) return false;
    user.set_since(user.since, latest_seen(user, last_seen, now));
    if (user.online()) return false;
    change(user, user.cause, now);
    user.is_awaited = true;
    await(user, until);
    return true;
}

void Presence::await(const PresenceEntry& user, Tick until) {
    awaited_.push({until - postponed_, user.position()});
}

PresenceEntry* Presence::at(PresencePosition position) {
    const auto found = by_change_.find(position, ByPosition{});
    return found == by_change_.end() ? nullptr : &*found;
}

bool Presence::end_awaited(Tick upto, std::size_t most, Cause cause, WallMillis now,
                           const std::function<void(const User&, Millis)>& lost) {
    thread_.assert_here();
    for (; !awaited_.empty() && awaited_.top().until <= upto - postponed_; --most) {
        if (most == 0) return true;
        PresenceEntry* const user = at(awaited_.top().user);
        awaited_.pop();
        if (!user || !user->is_awaited) continue;
        user->is_awaited = false;
        --online_;
        const WallMillis seen = std::min(user->last_seen(), now);
        user->set_since(now, seen);
        change(*user, cause, now);
        show_to<void>([&](User& shown) { lost(shown, now - seen); }, *user);
    }
    return false;
}

void Presence::to_front(User& user, Device& device) {
    device.unlink();
    user.devices.push_front(device);
}

/// Moves the device behind the connected ones. Returns false if it was not connected.
bool Presence::to_back(User& user, Device& device) {
    device.unlink();
    user.devices.push_back(device);
    if (!std::exchange(device.here, false)) return false;
    --user.here;
    return true;
}

void Presence::change(PresenceEntry& user, Cause cause, WallMillis now) {
    by_change_.erase(by_change_.iterator_to(user));
    // Other users may have versions ahead of the clock. The new version is at least as high, so
    // that a visit page by page meets this user again.
    const auto latest = by_change_.empty() ? 0 : by_change_.rbegin()->version;
    user.version = std::max({user.version + 1, version_floor_ + 1, latest, version_by_clock(now)});
    insert_by_change(user);
    user.cause = cause;
}

/// Most users have the latest version.
void Presence::insert_by_change(PresenceEntry& user) {
    if (by_change_.empty() || by_change_.rbegin()->version < user.version)
        by_change_.push_back(user);
    else
        by_change_.insert_before(by_change_.upper_bound(user.position(), ByPosition{}), user);
}

/// Makes one position for each visit and not for each user, because a position costs a hash of the
/// user's name.
std::optional<PresencePosition> Presence::visit_entries(
    PresencePosition after, std::size_t most,
    const std::function<Visited(PresenceEntry&)>& visitor) const {
    thread_.assert_here();
    auto next = by_change_.upper_bound(after, ByPosition{});
    auto how = Visited::done;
    for (; next != by_change_.end() && most > 0 && how == Visited::done; --most)
        // The entry may change, except for its place.
        how = visitor(const_cast<PresenceEntry&>(*next++));
    // `--next` is the entry, or its replacement.
    if (how == Visited::unfinished) --next;
    if (next == by_change_.end()) return std::nullopt;
    return next == by_change_.begin() ? after : std::prev(next)->position();
}

std::optional<PresencePosition> Presence::visit(PresencePosition after, std::size_t most,
                                                const std::function<bool(User&)>& visitor) const {
    return visit_entries(after, most, [&](PresenceEntry& entry) {
        return show_to(visitor, entry) ? Visited::done : Visited::enough;
    });
}

void Presence::show(std::string_view name, const std::function<void(User&)>& visitor) const {
    thread_.assert_here();
    if (PresenceEntry* const found = by_name_.find(name)) show_to(visitor, *found);
}

void Presence::forget_some(WallMillis now, Millis kept,
                           const std::function<void(const User&)>& forgotten) {
    thread_.assert_here();
    const bool crowded = users() > most_known_ || name_bytes() > most_name_bytes;
    const auto due = [&](const PresenceEntry& user) {
        const Millis limit = crowded && !user.stayed ? std::min(kept, a_minute) : kept;
        return user.sessions == 0 && user.since < now - limit;
    };
    const auto rest = visit_entries(sweep_, users() / 60 + 1, [&](PresenceEntry& entry) {
        if (!due(entry)) return Visited::done;
        // A packed user has a session, so this one is not packed.
        User& user = static_cast<User&>(entry);
        if (user.online()) return Visited::done;
        if (forgotten) forgotten(user);
        forget(user);
        return Visited::done;
    });
    sweep_ = rest.value_or(PresencePosition{});
}

bool Presence::forget_now(std::string_view name) {
    User* const user = find(name);
    if (!user || user->sessions > 0 || user->online()) return false;
    forget(*user);
    return true;
}

void Presence::forget(User& user) {
    version_floor_ = std::max(version_floor_, user.version);
    by_name_.erase(user);
    name_bytes_ -= user.name.size();
    by_change_.erase_and_dispose(by_change_.iterator_to(user), dispose);
}

std::string to_json(const PresenceChange& change) {
    return json::serialize(json::object{
        {"time", rfc3339(change.time)},
        {"user", recorded_name(change.user)},
        {"state", state_name(change.online)},
        {"cause", name(change.cause)},
        {"version", change.version},
        {"client", recorded_name(change.client)},
        {"silent_ms", change.silent},
    });
}

/// The version for this time, but below the stored floor. The floor stays behind the clock while
/// the store takes nothing. If versions exceeded it, they would fall after a crash if the next
/// process has a late clock. Above this limit, versions only count upwards.
std::uint64_t version_by_clock(WallMillis now) {
    const std::uint64_t most = time_of(stored_floor()) - room_to_count;
    return std::min(static_cast<std::uint64_t>(std::max<WallMillis>(now, 0)), most);
}

PutUser stored_presence(const User& user) {
    return {.name = user.name,
            .version = user.version,
            .since = user.since,
            .last_seen = user.last_seen(),
            .cause = static_cast<std::uint8_t>(user.cause),
            .limit = static_cast<std::uint32_t>(user.longest_limit())};
}

std::string to_json(const User& user, Millis now, WallMillis wall) {
    json::array devices;
    std::size_t room = names_listed;
    // The number of devices that are not connected. Waiting logins are listed before connected
    // devices.
    std::size_t waiting = 0;
    const bool only_devices_count = user.here > 0 && is_seen_in_future(user, wall);
    WallMillis last_seen = only_devices_count ? 0 : std::min(user.last_seen(), wall);
    for (const Device& device : user.devices) {
        if (!device.here && ++waiting > devices_listed) break;
        if (!device.here) continue;
        const WallMillis seen = wall - (now - device.last_packet());
        last_seen = std::max(last_seen, seen);
        if (devices.size() == devices_listed || device.client.size() > room) break;
        room -= device.client.size();
        devices.push_back(json::object{
            {"client", device.client},
            {"since", rfc3339(device.since)},
            {"last_seen", rfc3339(seen)},
        });
    }
    return json::serialize(json::object{
        {"user", user.name},
        {"state", state_name(user.online())},
        {"since", rfc3339(user.since)},
        {"last_seen", rfc3339(last_seen)},
        {"version", user.version},
        {"cause", name(user.cause)},
        {"devices", std::move(devices)},
    });
}

MessageRef presence_message(const User& user, Millis now, WallMillis wall) {
    if (!user.is_known() || user.is_unannounced) return nullptr;
    auto topic = presence_topic(user.name);
    constexpr std::size_t longest_topic = 65'535;
    if (topic.size() > longest_topic) return nullptr;
    return std::make_shared<Message>(Message{.topic = std::move(topic),
                                             .payload = to_json(user, now, wall),
                                             .properties = {},
                                             .qos = QoS::at_least_once,
                                             .retain = true,
                                             .presence_version = user.version});
}

}  // namespace pulsegate
