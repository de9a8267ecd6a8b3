#include "server/session/state/queued_message.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace pulsegate {

namespace {

constexpr std::uint32_t most_cost = (1u << 28) - 1;

std::uint32_t bounded_cost(std::size_t cost) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(cost, most_cost));
}

}  // namespace

// -- bodies --

QueuedBody::~QueuedBody() {
    if (bodies) bodies->forget(*this);
}

void intrusive_ptr_release(QueuedBody* body) {
    if (--body->references > 0) return;
    if (body->has_details)
        delete static_cast<QueuedDelivery*>(body);
    else
        delete body;
}

QueuedBodyRef QueuedBodies::share(const MessageRef& message, bool is_stored) {
    QueuedBody*& last = last_shared_[is_stored ? 1 : 0];
    if (last && last->message == message) return last;
    last = new QueuedBody(message, message->expires);
    last->bodies = this;
    return last;
}

void QueuedBodies::add(QueuedMessage& queued, std::uint64_t unit) {
    QueuedBody& body = *queued.body;
    body.unit = unit;
    body.in_queue = body.references == 1 ? &queued : nullptr;
    if (body.is_linked()) return;
    body.bodies = this;
    bytes_ += body.message->cost();
    oldest_first_.push_back(body);
}

void QueuedBodies::remove(QueuedMessage& queued) {
    if (queued.body && queued.body->in_queue == &queued) forget(*queued.body);
}

void QueuedBodies::forget(QueuedBody& body) {
    for (QueuedBody*& last : last_shared_)
        if (last == &body) last = nullptr;
    body.in_queue = nullptr;
    if (!body.is_linked()) return;
    bytes_ -= body.message->cost();
    oldest_first_.erase(oldest_first_.iterator_to(body));
}

void QueuedBodies::leave_oldest_to_store() {
    QueuedBody& body = oldest_first_.front();
    QueuedMessage* const queued = body.in_queue;
    forget(body);
    if (queued)
        queued->drop_body();
    else
        body.message = nullptr;
}

// -- messages --

QueuedMessage::QueuedMessage(const Delivery& waiting, QueuedBodies& bodies)
    : QueuedHead{.stamp = waiting.message->stamp,
                 .sender = SenderShares::sender(*waiting.message),
                 .cost = bounded_cost(waiting.cost()) & most_cost,
                 .is_exactly_once = waiting.qos == QoS::exactly_once,
                 .retain = waiting.retain,
                 .is_stored = waiting.owner != 0} {
    if (waiting.identifiers.empty() && !waiting.share && !waiting.from_inbox) {
        body = bodies.share(waiting.message, is_stored);
        return;
    }
    body = QueuedBodySlot(waiting.message->expires);
    QueuedDelivery& details = make_details(waiting.owner);
    details.message = waiting.message;
    details.from_inbox = waiting.from_inbox;
    details.identifiers = waiting.identifiers;
    details.share = waiting.share;
}

QueuedHead head_of(const WaitingMessage& stored, const Receiver& receiver) {
    return {.stamp = stored.stamp,
            .sender = stored.sender,
            .cost = bounded_cost(Message().cost() + stored.bytes) & most_cost,
            .is_exactly_once = receiver.qos == QoS::exactly_once,
            .retain = receiver.retain,
            .is_stored = true};
}

QueuedMessage::QueuedMessage(const WaitingMessage& stored, const Receiver& receiver, Millis expires)
    : QueuedHead(head_of(stored, receiver)), body(expires) {
    if (!receiver.identifiers.empty())
        make_details(receiver.owner).identifiers = receiver.identifiers;
}

QueuedMessage::QueuedMessage(const QueuedMessage& other, const Receiver& receiver)
    : QueuedHead{.stamp = other.stamp,
                 .sender = other.sender,
                 .cost = other.cost,
                 .is_exactly_once = receiver.qos == QoS::exactly_once,
                 .retain = receiver.retain,
                 .is_stored = receiver.owner != 0},
      body(other.body) {
    if (!receiver.identifiers.empty())
        make_details(receiver.owner).identifiers = receiver.identifiers;
}

OwnerId QueuedMessage::owner_in(OwnerId owner) const {
    if (has_details()) return details().owner;
    return is_stored ? owner : 0;
}

Delivery QueuedMessage::delivery(OwnerId owner) const {
    Delivery made{.message = body->message,
                  .qos = is_exactly_once ? QoS::exactly_once : QoS::at_least_once,
                  .retain = retain,
                  .owner = owner_in(owner)};
    if (!has_details()) return made;
    made.from_inbox = details().from_inbox;
    made.identifiers = details().identifiers;
    made.share = details().share;
    return made;
}

void QueuedMessage::put_body(MessageRef message) {
    // The store has a time of the wall clock, which may have been set since the message was queued.
    // A copy is not worth the few milliseconds by which two readings of the clocks differ.
    constexpr Millis small = 1000;
    if (std::abs(message->expires - expires()) > small) {
        Message corrected = *message;
        corrected.expires = expires();
        message = share(std::move(corrected));
    }
    if (has_details())
        body->message = std::move(message);
    else
        body = QueuedBodyRef(new QueuedBody(std::move(message), expires()));
}

void QueuedMessage::drop_body() {
    if (has_details() && (is_from_inbox() || !details().identifiers.empty()))
        body->message = nullptr;
    else
        body = QueuedBodySlot(expires());
}

void QueuedMessage::mark_from_inbox(bool from_inbox, OwnerId inbox) {
    make_details(inbox).from_inbox = from_inbox;
}

/// The details are for this message alone, so it no longer shares its body.
QueuedDelivery& QueuedMessage::make_details(OwnerId owner) {
    if (!has_details())
        body = QueuedBodyRef(
            new QueuedDelivery(body ? body->message : MessageRef(), expires(), owner));
    return static_cast<QueuedDelivery&>(*body);
}

}  // namespace pulsegate
