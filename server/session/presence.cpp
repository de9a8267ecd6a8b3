#include "server/session/presence.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/topics.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

/// A user that a whole fleet shares has thousands of devices: messages list the first ones only.
constexpr std::size_t devices_listed = 20;
constexpr std::size_t names_listed = 16 * 1024;  ///< bytes of client ids

/// Above this number of users, offline ones are forgotten after a minute.
constexpr std::size_t most_known = 1'000'000;
constexpr std::size_t most_name_bytes = 64 * 1024 * 1024;
constexpr Millis when_crowded = 60'000;

const char* state_name(bool online) { return online ? "online" : "offline"; }

}  // namespace

User* Presence::find(std::string_view name) const {
    thread_.assert_here();
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : *found;
}

User& Presence::find_or_create(std::string_view name) {
    thread_.assert_here();
    if (User* known = find(name)) return *known;
    auto& user = *users_.emplace_back(std::make_unique<User>(name));
    user.place = static_cast<std::uint32_t>(users_.size() - 1);
    user.version = forgotten_version_;
    by_name_.insert(&user);
    name_bytes_ += name.size();
    return user;
}

bool Presence::arrive(User& user, Device& device, WallMillis now) {
    thread_.assert_here();
    const bool was_online = user.online();
    device.here = true;
    ++user.here;
    to_front(user, device);
    if (was_online) return false;
    ++online_;
    user.since = now;
    user.last_seen = now;
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
    if (!std::exchange(device.here, false)) return false;  // it is disconnected already
    --user.here;
    device.unlink();
    user.devices.push_back(device);
    user.last_seen = std::max(user.last_seen, last_seen);
    if (user.online()) return false;
    --online_;
    user.since = now;
    change(user, cause, now);
    return true;
}

void Presence::to_front(User& user, Device& device) {
    device.unlink();
    user.devices.push_front(device);
}

void Presence::change(User& user, Cause cause, WallMillis now) {
    user.version = std::max(user.version + 1, static_cast<std::uint64_t>(now));
    user.cause = cause;
}

std::size_t Presence::visit(std::size_t from, std::size_t most,
                            const std::function<bool(const User&)>& visitor) const {
    thread_.assert_here();
    // Downwards: new users are appended, and a gap is filled from the end, so that all users that
    // were not visited yet stay below `from`.
    from = std::min(from, users_.size());
    for (; from > 0 && most > 0; --most)
        if (!visitor(*users_[--from])) break;
    return from;
}

void Presence::forget_some(WallMillis now, Millis kept) {
    thread_.assert_here();
    const bool crowded = users() > most_known || name_bytes() > most_name_bytes;
    const WallMillis limit = now - (crowded ? std::min(kept, when_crowded) : kept);
    for (auto left = users_.size() / 60 + 1; left > 0 && !users_.empty(); --left) {
        if (sweep_ >= users_.size()) sweep_ = 0;
        User& user = *users_[sweep_];
        if (user.sessions == 0 && !user.online() && user.since < limit)
            forget(user);
        else
            ++sweep_;
    }
}

void Presence::forget(User& user) {
    forgotten_version_ = std::max(forgotten_version_, user.version);
    by_name_.erase(&user);
    name_bytes_ -= user.name.size();
    const auto gap = user.place;
    std::swap(users_[gap], users_.back());
    users_[gap]->place = gap;
    users_.pop_back();
}

std::string to_json(const PresenceChange& change) {
    return json::serialize(json::object{
        {"time", rfc3339(change.time)},
        {"user", change.user},
        {"state", state_name(change.online)},
        {"cause", name(change.cause)},
        {"version", change.version},
        {"client", change.client},
        {"silent_ms", change.silent},
    });
}

std::string to_json(const User& user, Millis now, WallMillis wall) {
    json::array devices;
    std::size_t room = names_listed;
    WallMillis last_seen = user.last_seen;
    for (const Device& device : user.devices) {
        if (!device.here) break;  // connected devices come first
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
