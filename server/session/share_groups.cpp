#include "server/session/share_groups.h"

#include <algorithm>

#include "protocol/topic.h"

namespace pulsegate {

void ShareGroups::apply(const Membership& change) {
    using Change = Membership::Change;
    if (change.change != Change::joins && !groups_.contains(change.share)) return;
    Group& group = find_or_create(change.share);
    const auto member =
        std::find_if(group.members.begin(), group.members.end(),
                     [&](const Member& known) { return known.session == change.member; });
    const bool known = member != group.members.end();
    switch (change.change) {
        case Change::joins: {
            const Member joined{change.member, true, change.options, change.identifier};
            if (known)
                *member = joined;
            else
                group.members.push_back(joined);
            return;
        }
        case Change::goes_away:
        case Change::comes_back:
            if (known) member->connected = change.change == Change::comes_back;
            return;
        case Change::leaves: {
            if (known) {
                // Those behind move up, and whose turn it was, it stays.
                const auto place = static_cast<std::size_t>(member - group.members.begin());
                if (place < group.next) --group.next;
                group.members.erase(member);
            }
            if (!group.members.empty()) return;
            router_.unsubscribe_all(group.subscription);
            groups_.erase(change.share);
        }
    }
}

std::optional<ShareGroups::Choice> ShareGroups::choose(std::string_view share) {
    const auto found = groups_.find(std::string(share));
    if (found == groups_.end()) return std::nullopt;
    return choose(*found->second);
}

ShareGroups::Choice ShareGroups::choose(Group& group) {
    const auto size = group.members.size();
    std::size_t chosen = group.next % size;
    for (std::size_t step = 0; step < size; ++step) {
        const auto candidate = (group.next + step) % size;
        if (!group.members[candidate].connected) continue;
        chosen = candidate;
        break;
    }
    group.next = chosen + 1;
    const Member& member = group.members[chosen];
    return {group.share, member.session, member.connected, member.options, member.identifier};
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
