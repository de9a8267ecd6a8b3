#include "server/session/state/queue_shares.h"

#include <algorithm>
#include <iterator>

namespace pulsegate {

/// Sets the sender's share to `bytes`.
void QueueShares::count(Sender sender, Share& share, std::size_t bytes) {
    by_bytes_.erase({share.bytes, sender});
    share.bytes = bytes;
    by_bytes_.insert({bytes, sender});
}

void QueueShares::add(Queue::iterator message) {
    Share& share = shares_[message->sender];
    share.messages.push_back(message);
    count(message->sender, share, share.bytes + message->cost);
}

void QueueShares::remove(Queue::iterator message) {
    const Sender sender = message->sender;
    const auto found = shares_.find(sender);
    Share& share = found->second;
    const auto oldest = share.messages.begin() + static_cast<std::ptrdiff_t>(share.gone);
    if (std::distance(oldest, share.messages.end()) == 1) {
        by_bytes_.erase({share.bytes, sender});
        shares_.erase(found);
        return;
    }
    count(sender, share, share.bytes - message->cost);
    if (*oldest != message) {
        share.messages.erase(std::find(oldest, share.messages.end(), message));
        return;
    }
    // Erases only when half of the list has left. So each entry is moved at most once for each
    // entry that leaves.
    if (++share.gone * 2 < share.messages.size()) return;
    share.messages.erase(share.messages.begin(), std::next(oldest));
    share.gone = 0;
}

void QueueShares::order_last(Sender sender) {
    Share& share = shares_.find(sender)->second;
    const auto oldest = share.messages.begin() + static_cast<std::ptrdiff_t>(share.gone);
    for (auto each = std::prev(share.messages.end()); each != oldest; --each) {
        const auto before = std::prev(each);
        if ((*before)->stamp <= (*each)->stamp) return;
        std::swap(*before, *each);
    }
}

std::optional<Queue::iterator> QueueShares::surplus(Sender sender, std::size_t more) const {
    const auto own = shares_.find(sender);
    const std::pair newcomer(more + (own == shares_.end() ? 0 : own->second.bytes), sender);
    auto largest = by_bytes_.rbegin();
    if (largest != by_bytes_.rend() && largest->second == sender) ++largest;
    const bool is_others = largest != by_bytes_.rend() && *largest > newcomer;
    const auto found = is_others ? shares_.find(largest->second) : own;
    if (found == shares_.end()) return std::nullopt;
    return found->second.messages[found->second.gone];
}

}  // namespace pulsegate
