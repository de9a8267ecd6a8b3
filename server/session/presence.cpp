#include "server/session/presence.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <utility>

#include "protocol/topic.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

/// A name that a whole fleet shares has thousands of devices: a message tells the first of them.
constexpr std::size_t devices_listed = 20;
constexpr std::size_t names_listed = 16 * 1024;  ///< bytes of client ids

const char* state_name(bool online) { return online ? "online" : "offline"; }

/// What a level of a topic can't have in it, or not by itself, and how it is written there.
struct Escape {
    char character;
    std::string_view written;
};
constexpr Escape escapes[] = {{'/', "%2F"}, {'+', "%2B"}, {'#', "%23"}, {'%', "%25"}};

/// The user whose name is written so. No name is written in two ways: "%41" is nobody's.
std::optional<std::string> user_written(std::string_view level) {
    std::string user;
    while (!level.empty()) {
        const auto plain = std::min(level.find_first_of("/+#%"), level.size());
        user += level.substr(0, plain);
        level.remove_prefix(plain);
        if (level.empty()) break;
        const auto escape = std::ranges::find(escapes, level.substr(0, 3), &Escape::written);
        if (escape == std::end(escapes)) return std::nullopt;
        user += escape->character;
        level.remove_prefix(escape->written.size());
    }
    return user;
}

std::optional<std::string> user_after(std::string_view prefix, std::string_view topic) {
    if (!topic.starts_with(prefix)) return std::nullopt;
    return user_written(topic.substr(prefix.size()));
}

}  // namespace

std::string_view name(Cause cause) {
    switch (cause) {
        case Cause::login: return "login";
        case Cause::logout: return "logout";
        case Cause::timeout: return "timeout";
        case Cause::connection_lost: return "connection_lost";
        case Cause::taken_over: return "taken_over";
        case Cause::kicked: return "kicked";
        case Cause::shutdown: return "shutdown";
    }
    return "unknown";
}

User* Presence::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : *found;
}

User& Presence::find_or_create(std::string_view name) {
    if (User* known = find(name)) return *known;
    auto& user = *roll_.emplace_back(std::make_unique<User>(name));
    user.place = static_cast<std::uint32_t>(roll_.size() - 1);
    user.version = forgotten_version_;
    by_name_.insert(&user);
    name_bytes_ += name.size();
    return user;
}

bool Presence::arrive(User& user, Device& device, WallMillis now) {
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
    to_front(user, device);
    change(user, Cause::taken_over, now);
}

bool Presence::depart(User& user, Device& device, Cause cause, WallMillis now,
                      WallMillis last_seen) {
    if (!std::exchange(device.here, false)) return false;  // it has departed before
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
    // Downwards: newcomers are appended and whoever fills a gap comes from the end, so that all who
    // were not visited yet stay below `from`.
    from = std::min(from, roll_.size());
    for (; from > 0 && most > 0; --most)
        if (!visitor(*roll_[--from])) break;
    return from;
}

void Presence::forget_some(WallMillis limit) {
    for (auto left = roll_.size() / 60 + 1; left > 0 && !roll_.empty(); --left) {
        if (sweep_ >= roll_.size()) sweep_ = 0;
        User& user = *roll_[sweep_];
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
    std::swap(roll_[gap], roll_.back());
    roll_[gap]->place = gap;
    roll_.pop_back();
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
        if (!device.here) break;  // nor is anyone behind it
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

std::string topic_level(std::string_view user) {
    std::string level;
    for (const char c : user) {
        const auto escape = std::ranges::find(escapes, c, &Escape::character);
        if (escape == std::end(escapes))
            level += c;
        else
            level += escape->written;
    }
    return level;
}

std::string presence_topic(std::string_view user) {
    return std::string(presence_prefix) + topic_level(user);
}

std::optional<std::string> presence_user(std::string_view filter) {
    return user_after(presence_prefix, filter);
}

std::string inbox_topic(std::string_view user) {
    return std::string(inbox_prefix) + topic_level(user);
}

std::optional<std::string> inbox_user(std::string_view topic) {
    return user_after(inbox_prefix, topic);
}

bool selects_presence(std::string_view filter) {
    return has_wildcard(filter) && filter.starts_with(presence_prefix);
}

}  // namespace pulsegate
