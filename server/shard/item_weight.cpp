#include "server/shard/item_weight.h"

#include <variant>

namespace pulsegate {

namespace {

struct Weight {
    std::size_t operator()(const GroupDelivery& assigned) const {
        return weight_of(assigned.delivery.message);
    }
    std::size_t operator()(const TrackedMessage& tracked) const {
        return weight_of(tracked.message);
    }
    std::size_t operator()(const GroupReturn& returned) const {
        return weight_of(returned.delivery.message);
    }
    std::size_t operator()(const GroupMembership& membership) const {
        return bookkeeping_weight + membership.share.size();
    }
    std::size_t operator()(const GroupRecall& recall) const {
        return bookkeeping_weight + recall.share.size();
    }
    std::size_t operator()(const MessagesRead& read) const {
        std::size_t sum = bookkeeping_weight;
        for (const MessageRef& message : read.found) sum += weight_of(message);
        return sum;
    }
    std::size_t operator()(const DelayedDue& due) const {
        std::size_t sum = bookkeeping_weight;
        for (const PutDelayed& delayed : due.messages) sum += weight_of(delayed.message);
        return sum;
    }
    std::size_t operator()(const PresencePage& page) const {
        std::size_t sum = bookkeeping_weight;
        for (const MessageRef& message : page.messages)
            if (message) sum += weight_of(message);
        return sum;
    }
    std::size_t operator()(const PresenceQuery& query) const {
        std::size_t sum = bookkeeping_weight;
        for (const auto& named : query.users) sum += sizeof named + named.user.size();
        return sum;
    }
    template <class Other>
    std::size_t operator()(const Other&) const {
        return bookkeeping_weight;
    }
};

}  // namespace

std::size_t weight_of(const MessageRef& message) { return message->cost(); }
std::size_t weight_of(const ShardMessage& message) { return std::visit(Weight{}, message); }
std::size_t weight_of(const LedgerAnswer& answer) { return std::visit(Weight{}, answer); }

}  // namespace pulsegate
