#include "server/session/requests/unstored_subscriptions.h"

#include <algorithm>
#include <iterator>

namespace pulsegate {

std::size_t UnstoredSubscriptions::cost_of(const Packet& packet) {
    constexpr std::size_t bookkeeping = 256;  // bytes of a change, mostly for its deque
    std::size_t cost = 0;
    for (const std::string& filter : packet.filters) cost += bookkeeping + 2 * filter.size();
    return cost;
}

void UnstoredSubscriptions::add(Packet& packet, std::string_view filter, const Former& former) {
    packet.filters.emplace_back(filter);
    changes_[{packet.owner, packet.filters.back()}].push_back({packet.number, former});
}

void UnstoredSubscriptions::keep(const Packet& packet) {
    for (const std::string& filter : packet.filters) {
        const auto found = find(packet, filter);
        if (found) remove(*found);
    }
}

void UnstoredSubscriptions::undo(const Packet& packet, const Restore& restore) {
    for (const std::string& filter : packet.filters) {
        const auto found = find(packet, filter);
        if (!found) continue;
        const Former former = found->change->former;
        const auto next = std::next(found->change);
        const bool is_last = next == found->filter->second.end();
        // A later packet has replaced the subscription. If it is refused too, the filter gets back
        // its subscription from before both packets.
        if (!is_last) next->former = former;
        remove(*found);
        if (is_last) restore(filter, former);
    }
}

/// Packets are settled nearly in their order, so the change is one of the first.
std::optional<UnstoredSubscriptions::Place> UnstoredSubscriptions::find(const Packet& packet,
                                                                        const std::string& text) {
    const auto filter = changes_.find({packet.owner, text});
    if (filter == changes_.end()) return std::nullopt;
    const auto change = std::ranges::find(filter->second, packet.number, &Change::packet);
    if (change == filter->second.end()) return std::nullopt;
    return Place{filter, change};
}

void UnstoredSubscriptions::remove(const Place& place) {
    place.filter->second.erase(place.change);
    if (place.filter->second.empty()) changes_.erase(place.filter);
}

}  // namespace pulsegate
