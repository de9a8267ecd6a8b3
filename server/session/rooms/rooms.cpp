#include "server/session/rooms/rooms.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "protocol/topic.h"
#include "server/auth/access.h"
#include "server/message/topics.h"

namespace pulsegate {

namespace {

/// The first room after `after`, in the order of topics.
template <class ByTopic>
auto first_room(const ByTopic& lists, std::string_view after) {
    const std::string_view before_rooms = "room/";
    return lists.upper_bound(std::max(after, before_rooms));
}

}  // namespace

Rooms::~Rooms() {
    for (const auto& [topic, room] : rooms_)
        if (room.table) interest_.remove(topic, *room.table);
    totals_.room_members -= memberships_;
}

const Rooms::Members* Rooms::members(std::string_view topic) const {
    thread_.assert_here();
    const auto found = rooms_.find(topic);
    return found == rooms_.end() ? nullptr : &found->second.members;
}

Rooms::Audience Rooms::audience(std::string_view topic) const {
    thread_.assert_here();
    Audience audience;
    if (const auto room = room_of(topic)) {
        audience.readers_ = members(*room);
        audience.is_closed_ = settings_.rooms_are_closed;
        if (*room == topic) audience.members_ = audience.readers_;
    } else if (settings_.presence_is_for_watchers) {
        audience.presence_ = presence_of(topic).value_or("");
        audience.is_closed_ = !audience.presence_.empty();
        if (audience.is_closed_) audience.readers_ = members(audience.presence_);
    }
    return audience;
}

bool Rooms::Audience::is_own(std::string_view user) const {
    return !presence_.empty() && is_topic_level(presence_.substr(presence_.find('/') + 1), user);
}

const Stamp* Rooms::Audience::since(std::string_view user) const {
    if (!members_) return nullptr;
    const auto found = members_->find(user);
    return found == members_->end() ? nullptr : &found->second;
}

bool Rooms::admits(std::string_view user, std::string_view topic) const {
    return audience(topic).admits(user);
}

bool Rooms::may_subscribe(std::string_view user, std::string_view filter) const {
    // A shared subscription has no single user, and its members may be on other shards.
    if (const auto shared = shared_filter(filter))
        return !(settings_.rooms_are_closed && overlaps(shared->filter, all_rooms)) &&
               !(settings_.presence_is_for_watchers && presence_of(shared->filter));
    auto list = room_of(filter);
    if (!list) list = presence_of(filter);
    return !list || has_wildcard(*list) || admits(user, *list);
}

Rooms::Change Rooms::add(std::string_view topic, std::string_view user) {
    thread_.assert_here();
    const Members* const all = members(topic);
    if (all && all->contains(user)) return Change::nothing;
    if (!claim_membership()) return Change::no_room;
    const bool is_first = is_room(topic) && !has_rooms(user);
    const Stamp since = next_stamp();
    enter(topic, user, since);
    if (!journal_.is_on()) return Change::done;
    journal_.add(PutMember{std::string(topic), std::string(user), since});
    positions_unit_ = journal_.unit();
    const User* const known = is_first ? presence_.find(user) : nullptr;
    if (known && known->has_device()) put_position(user, 0);
    return Change::done;
}

void Rooms::restore(const PutMember& stored) {
    const Members* const all = members(stored.topic);
    if (all && all->contains(stored.user)) return;
    ++totals_.room_members;
    enter(stored.topic, stored.user, stored.since);
}

/// Claims one of the memberships that all shards share.
bool Rooms::claim_membership() {
    std::size_t members = totals_.room_members;
    while (members < settings_.max_room_members)
        if (totals_.room_members.compare_exchange_weak(members, members + 1)) return true;
    return false;
}

/// Adds a membership that is claimed already.
void Rooms::enter(std::string_view topic, std::string_view user, Stamp since) {
    auto found = rooms_.find(topic);
    if (found == rooms_.end()) {
        found = rooms_.emplace(topic, Room()).first;
        if (is_room(topic)) found->second.table = interest_.add(topic);
    }
    found->second.members.emplace(user, since);
    ++memberships_;
    latest_position_ = std::max(latest_position_, since);
    if (is_room(topic)) by_user_[std::string(user)].topics.insert(found->first);
}

Rooms::Change Rooms::remove(std::string_view topic, std::string_view user) {
    thread_.assert_here();
    const auto room = rooms_.find(topic);
    if (room == rooms_.end()) return Change::nothing;
    const auto member = room->second.members.find(user);
    if (member == room->second.members.end()) return Change::nothing;
    leave(room, member);
    return Change::done;
}

std::size_t Rooms::remove_some(std::string_view topic, std::size_t most) {
    thread_.assert_here();
    const auto room = rooms_.find(topic);
    if (room == rooms_.end()) return 0;
    const std::size_t removed = std::min(most, room->second.members.size());
    for (std::size_t left = removed; left > 0; --left) leave(room, room->second.members.begin());
    return removed;
}

void Rooms::leave(ByTopic::iterator room, Members::iterator member) {
    const std::string& user = member->first;
    if (journal_.is_on()) journal_.add(DropMember{room->first, user});
    const auto of_user = by_user_.find(user);
    if (of_user != by_user_.end()) {
        of_user->second.topics.erase(room->first);
        if (of_user->second.topics.empty()) {
            by_user_.erase(of_user);
            if (journal_.is_on()) journal_.add_lazily(DropRoomPosition{user});
        }
    }
    room->second.members.erase(member);
    --memberships_;
    --totals_.room_members;
    if (!room->second.members.empty()) return;
    if (room->second.table) interest_.remove(room->first, *room->second.table);
    rooms_.erase(room);
}

std::vector<std::string> Rooms::list_members(std::string_view topic, std::string_view after,
                                             std::size_t most) const {
    std::vector<std::string> page;
    const Members* const all = members(topic);
    if (!all) return page;
    for (auto next = all->upper_bound(after); next != all->end() && page.size() < most; ++next)
        page.push_back(next->first);
    return page;
}

std::vector<Rooms::Listed> Rooms::list(std::string_view after, std::size_t most) const {
    thread_.assert_here();
    std::vector<Listed> page;
    for (auto next = first_room(rooms_, after); next != rooms_.end() && page.size() < most; ++next)
        page.push_back({next->first, next->second.members.size()});
    return page;
}

Rooms::Found Rooms::rooms_of(std::string_view user, std::string_view after,
                             std::size_t most) const {
    thread_.assert_here();
    Found found;
    const auto of_user = by_user_.find(user);
    if (of_user == by_user_.end()) return found;
    const auto& topics = of_user->second.topics;
    auto next = topics.upper_bound(after);
    for (; next != topics.end() && most > 0; ++next, --most) found.topics.emplace_back(*next);
    if (next != topics.end()) found.next = found.topics.back();
    return found;
}

bool Rooms::is_room(std::string_view topic) {
    const auto room = room_of(topic);
    return room && *room == topic;
}

// -- positions --

Stamp Rooms::position_now() {
    positions_unit_ = journal_.unit();
    return latest_position_ = next_stamp();
}

Stamp Rooms::position_of(std::string_view user) const {
    thread_.assert_here();
    const auto found = by_user_.find(user);
    return found == by_user_.end() ? 0 : found->second.position;
}

void Rooms::device_came(std::string_view user) {
    thread_.assert_here();
    if (has_rooms(user)) put_position(user, 0);
}

void Rooms::last_device_went(std::string_view user) {
    thread_.assert_here();
    if (has_rooms(user)) put_position(user, position_now());
}

/// Units are applied in order, so later operations find the position in the store.
void Rooms::put_position(std::string_view user, Stamp position) {
    by_user_.find(user)->second.position = position;
    if (!journal_.is_on()) return;
    positions_unit_ = journal_.unit();
    journal_.add_lazily(PutRoomPosition{std::string(user), position});
}

/// If the user had a device when the process died, the device has received all earlier messages, or
/// has them in its queue.
void Rooms::restore(const PutRoomPosition& stored) {
    const auto found = by_user_.find(stored.user);
    if (found == by_user_.end()) return;
    // A user with a session has a device. Its position is noted when the session ends.
    const User* const user = presence_.find(stored.user);
    if (user && user->has_device()) {
        if (stored.position != 0) put_position(stored.user, 0);
        return;
    }
    if (stored.position == 0) return put_position(stored.user, position_now());
    found->second.position = stored.position;
    latest_position_ = std::max(latest_position_, stored.position);
}

}  // namespace pulsegate
