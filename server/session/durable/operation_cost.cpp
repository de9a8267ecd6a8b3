#include "server/session/durable/operation_cost.h"

#include <variant>

#include "server/base/overloaded.h"

namespace pulsegate {

namespace {

std::size_t cost_of_all(const std::vector<Receiver>& receivers) {
    std::size_t cost = 0;
    for (const Receiver& receiver : receivers) cost += cost_of(receiver);
    return cost;
}

/// The bytes that an operation refers to.
const auto cost_of_parts = Overloaded{
    [](const PutMessage& put) { return put.message->cost() + cost_of_all(put.receivers); },
    [](const PutReceiver& put) { return cost_of(put.receiver); },
    [](const Done& done) { return done.beyond.size() * sizeof(Stamp); },
    [](const PutOwner& put) { return put.user.size() + put.client.size(); },
    [](const PutSubscription& put) { return put.filter.size(); },
    [](const MarkRetainedOwed& mark) { return mark.filter.size(); },
    [](const DropSubscription& drop) { return drop.filter.size(); },
    [](const PutWill& put) { return put.message->cost(); },
    [](const PutRetained& put) { return put.message->cost(); },
    [](const DropRetained& drop) { return drop.topic.size(); },
    [](const PutDelayed& put) { return put.message->cost() + put.user.size(); },
    [](const CancelDelayed& cancel) { return cancel.name.size(); },
    [](const PutUser& put) { return put.name.size(); },
    [](const DropUser& drop) { return drop.name.size(); },
    [](const PutMember& put) { return put.topic.size() + put.user.size(); },
    [](const DropMember& drop) { return drop.topic.size() + drop.user.size(); },
    [](const PutRoomPosition& put) { return put.user.size(); },
    [](const DropRoomPosition& drop) { return drop.user.size(); },
    [](const PutEvent& put) { return put.body.size(); },
    // These have a fixed size.
    [](const OneOf<EndOwner, RetireOwner, PutSessionExpiry, DropSessionExpiry, PutIncoming,
                   DropIncoming, PutExchange, ReleaseExchange, DropExchange, DropWill,
                   DropDelayed> auto&) { return std::size_t{0}; },
    // No shard submits these.
    [](const OneOf<PutBan, DropBan, DropEndedBans, PutRevocation, EventDelivered, PutDeadLetter,
                   DropDeadLetters, ReplayDeadLetters> auto&) { return std::size_t{0}; },
};

}  // namespace

std::size_t cost_of(const Operation& operation) {
    return sizeof(Operation) + std::visit(cost_of_parts, operation);
}

std::size_t cost_of(const Receiver& receiver) {
    return sizeof(Receiver) + receiver.identifiers.size() * sizeof(std::uint32_t) +
           (receiver.share ? receiver.share->size() : 0);
}

}  // namespace pulsegate
