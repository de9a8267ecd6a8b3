#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "server/message.h"
#include "server/session/sender_shares.h"
#include "server/store/ledger.h"

namespace pulsegate {

class Outbox;
struct QueuedMessage;
using Queue = std::list<QueuedMessage>;

/// What is in memory of a queued message. Those whose body can be left to the store are linked, the
/// oldest first.
struct QueuedDelivery
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    explicit QueuedDelivery(Delivery delivery) : delivery(std::move(delivery)) {}

    Delivery delivery;  ///< its message is null if only the store has it
    Outbox* outbox = nullptr;
    Queue::iterator place{};
    std::uint64_t unit = 0;  ///< of the journal, with which it is stored at the latest
};

/// A message in a queue. When a queue is long, the bodies of stored messages are left to the store,
/// and read when they are to be sent: what stays takes 48 bytes.
struct QueuedMessage {
    explicit QueuedMessage(Delivery waiting)
        : stamp(waiting.message->stamp),
          sender(SenderShares::sender(*waiting.message)),
          cost(bounded(waiting.cost()) & most_cost),
          is_exactly_once(waiting.qos == QoS::exactly_once),
          retain(waiting.retain),
          in_memory(std::make_unique<QueuedDelivery>(std::move(waiting))) {}

    /// Of before a restart.
    QueuedMessage(const WaitingMessage& stored, const Receiver& receiver)
        : stamp(stored.stamp),
          sender(stored.sender),
          cost(bounded(Message().cost() + stored.bytes) & most_cost),
          is_exactly_once(receiver.qos == QoS::exactly_once),
          retain(receiver.retain) {
        if (receiver.identifiers.empty()) return;
        hold({.message = {}, .owner = receiver.owner, .identifiers = receiver.identifiers});
    }

    bool has_body() const { return in_memory && in_memory->delivery.message; }
    bool is_lent() const { return in_memory && in_memory->delivery.lent; }
    /// For whom it is in the store, if its queue is that of `owner`.
    OwnerId owner_in(OwnerId owner) const { return in_memory ? in_memory->delivery.owner : owner; }

    void put_body(MessageRef message, OwnerId owner) {
        if (!in_memory) hold({.message = {}, .owner = owner});
        in_memory->delivery.message = std::move(message);
    }
    void drop_body() {
        Delivery& delivery = in_memory->delivery;
        delivery.message = nullptr;
        in_memory->unlink();
        if (delivery.identifiers.empty() && !delivery.lent) in_memory.reset();
    }
    /// It is the inbox's, and `lent` to a device.
    void lend(bool lent, OwnerId inbox) {
        if (!in_memory) hold({.message = {}, .owner = inbox});
        in_memory->delivery.lent = lent;
    }

    Stamp stamp;
    SenderShares::Sender sender = 0;
    std::uint32_t cost : 29;  ///< bytes in memory with its body, about
    bool is_exactly_once : 1;
    bool retain : 1;
    std::unique_ptr<QueuedDelivery> in_memory;  ///< null: all else is in the store

private:
    static constexpr std::uint32_t most_cost = (1u << 29) - 1;
    static std::uint32_t bounded(std::size_t cost) {
        return static_cast<std::uint32_t>(std::min<std::size_t>(cost, most_cost));
    }
    void hold(Delivery delivery) {
        delivery.qos = is_exactly_once ? QoS::exactly_once : QoS::at_least_once;
        delivery.retain = retain;
        in_memory = std::make_unique<QueuedDelivery>(std::move(delivery));
    }
};

static_assert(sizeof(QueuedMessage) == 24);

}  // namespace pulsegate
