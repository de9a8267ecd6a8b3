#include "server/session/delivery/share_groups.h"

#include <utility>

#include "protocol/topic.h"

namespace pulsegate {

void ShareGroups::Group::swap(std::size_t a, std::size_t b) {
    std::swap(members[a], members[b]);
    places[members[a].session] = a;
    places[members[b].session] = b;
}

void ShareGroups::Group::set_connected(std::size_t place, bool is_connected) {
    if (is_connected == (place < connected)) return;
    if (is_connected) return swap(place, connected++);
    if (place < next && next <= connected) {
        // Moves a member that already had its turn into the gap, so that the round continues with
        // the others.
        swap(place, --next);
        place = next;
    }
    swap(place, --connected);
}

void ShareGroups::Group::remove(std::size_t place) {
    const SessionId leaver = members[place].session;
    set_connected(place, false);
    swap(places[leaver], members.size() - 1);
    places.erase(members.back().session);
    members.pop_back();
}

void ShareGroups::apply(const GroupMembership& change) {
    thread_.assert_here();
    using Change = GroupMembership::Change;
    if (change.change == Change::joins) {
        Group& group = find_or_create(change.share);
        const auto [place, is_new] = group.places.emplace(change.member, group.members.size());
        if (is_new) group.members.push_back({change.member, {}, 0, 0});
        group.members[place->second] = {change.member, change.options, change.identifier,
                                        change.owner};
        return group.set_connected(place->second, true);
    }
    const auto found = groups_.find(change.share);
    if (found == groups_.end()) return;
    Group& group = *found->second;
    const auto place = group.places.find(change.member);
    if (place == group.places.end()) return;
    if (change.change != Change::leaves)
        return group.set_connected(place->second, change.change == Change::comes_back);
    group.remove(place->second);
    if (!group.members.empty()) return;
    router_.unsubscribe_all(group.subscription);
    groups_.erase(found);
}

std::optional<ShareGroups::Choice> ShareGroups::choose(std::string_view share) {
    thread_.assert_here();
    const auto found = groups_.find(share);
    if (found == groups_.end()) return std::nullopt;
    return choose(*found->second);
}

bool ShareGroups::has_connected(std::string_view share) const {
    const auto found = groups_.find(share);
    return found != groups_.end() && found->second->connected > 0;
}

ShareGroups::Choice ShareGroups::choose(Group& group) {
    const bool any_connected = group.connected > 0;
    const auto chosen = group.next % (any_connected ? group.connected : group.members.size());
    group.next = chosen + 1;
    const Member& member = group.members[chosen];
    return {group.share,    member.session,    any_connected,
            member.options, member.identifier, member.owner};
}

ShareGroups::Group& ShareGroups::find_or_create(const std::string& share) {
    auto& group = groups_[share];
    if (group) return *group;
    group = std::make_unique<Group>();
    group->share = std::make_shared<const std::string>(share);
    SubscribeOptions all;
    all.qos = QoS::exactly_once;
    router_.subscribe(*group, group->subscription, shared_filter(share)->filter, all, 0);
    return *group;
}

}  // namespace pulsegate
