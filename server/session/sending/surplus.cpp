#include "server/session/sending/surplus.h"

#include <algorithm>

#include "server/session/terms/sender_shares.h"

namespace pulsegate {

Queue take_surplus(Exchanges& queue, std::size_t most, Measure measure) {
    const auto size_of = [&](const QueuedMessage& message) {
        return measure == Measure::bytes ? std::size_t{message.cost} : 1;
    };
    SenderShares shares;
    std::size_t left = 0;
    std::size_t largest = 0;
    for (const QueuedMessage& each : queue.outbox().queue()) {
        shares.add(each.sender, size_of(each));
        left += size_of(each);
        largest = std::max(largest, size_of(each));
    }
    const std::size_t level = shares.level(most);
    Queue taken;
    // A sender that exceeds the level by less than a message loses this message only if the
    // messages of others are not enough.
    for (const bool is_precise : {false, true}) {
        const auto is_surplus = [&](const QueuedMessage& each) {
            const std::size_t kept = level + (is_precise ? 0 : largest - 1);
            if (left <= most || shares.share(each.sender) <= kept) return false;
            shares.remove(each.sender, size_of(each));
            left -= size_of(each);
            return true;
        };
        taken.splice(taken.end(), queue.change_outbox([&](Outbox& outbox) {
            return outbox.take_queued_if(is_surplus);
        }));
    }
    return taken;
}

}  // namespace pulsegate
