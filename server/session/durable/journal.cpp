#include "server/session/durable/journal.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "server/session/durable/operation_cost.h"
#include "server/session/terms/sender_shares.h"

namespace pulsegate {

namespace {

/// The RETAIN flag as it was published. It is stored because another receiver may need it.
constexpr std::uint32_t retain_flag = 4;

/// If more bytes wait, operations that may be lost no longer wait for others.
constexpr std::size_t most_lazy_bytes = 1024 * 1024;

void add_waiter(std::vector<PartRef>& parts, PartRef part) {
    if (parts.empty() || parts.back() != part) parts.push_back(std::move(part));
}

std::uint32_t flags_of(const Message& message) {
    return static_cast<std::uint32_t>(message.qos) | (message.retain ? retain_flag : 0);
}

}  // namespace

void Journal::begin_turn() {
    thread_.assert_here();
    if (!std::exchange(in_turn_, true)) host_.later(JournalTurn{});
}

OwnerId Journal::next_owner() {
    const OwnerId owner = host_.next_owner();
    if (owner != 0) new_owners_.push_back({owner, unit()});
    return owner;
}

void Journal::add(Operation operation, PartRef part) {
    begin_turn();
    append(std::move(operation));
    await(std::move(part));
}

void Journal::await(PartRef part) {
    begin_turn();
    if (part) {
        const bool is_retried = part->awaits_retries();
        add_waiter(is_retried ? turn_.waiting.retried_parts : turn_.waiting.parts, std::move(part));
    }
    turn_.is_urgent = true;
}

void Journal::await_retries(PartRef part) {
    begin_turn();
    add_waiter(turn_.waiting.retried_parts, std::move(part));
    turn_.is_urgent = true;
}

bool Journal::is_new(OwnerId owner) const {
    return !new_owners_.empty() && owner >= new_owners_.front().owner &&
           owner <= new_owners_.back().owner;
}

void Journal::add_lazily(Operation operation) {
    begin_turn();
    append(std::move(operation));
}

void Journal::append(Operation operation) {
    turn_.waiting.bytes += cost_of(operation);
    turn_.operations.push_back(std::move(operation));
}

void Journal::returned(OwnerId owner) {
    add_lazily(DropSessionExpiry{owner});
    last_return_ = unit();
}

void Journal::put(const MessageRef& message, Receiver receiver, PartRef part, Millis now) {
    begin_turn();
    put_owner_first(message->stamp);
    auto* last =
        turn_.operations.empty() ? nullptr : std::get_if<PutMessage>(&turn_.operations.back());
    if (!last || last->stamp != message->stamp) {
        append(PutMessage{.stamp = message->stamp,
                          .expires = as_wall_time(message->expires, now),
                          .flags = flags_of(*message),
                          .sender = SenderShares::sender(*message),
                          .message = message});
        last = std::get_if<PutMessage>(&turn_.operations.back());
        ++messages_;
    }
    turn_.waiting.bytes += cost_of(receiver);
    last->receivers.push_back(std::move(receiver));
    await(std::move(part));
}

/// Moves a new owner in front of the message that it will receive. A room's message may need
/// inboxes for very many members. Then it stays one operation behind all these owners; otherwise
/// the store would have to merge its receivers again and again.
void Journal::put_owner_first(Stamp stamp) {
    const std::size_t count = turn_.operations.size();
    if (count < 2 || !std::holds_alternative<PutOwner>(turn_.operations.back())) return;
    const auto* const put = std::get_if<PutMessage>(&turn_.operations[count - 2]);
    if (put && put->stamp == stamp) std::swap(turn_.operations[count - 2], turn_.operations.back());
}

void Journal::put(const MessageRef& message, Collected collected, const PartRef& part, Millis now) {
    for (Receiver& receiver : collected.receivers) put(message, std::move(receiver), part, now);
    if (!collected.shards.empty())
        turn_.waiting.promises.push_back({message->stamp, std::move(collected.shards)});
}

void Journal::put(PutDelayed delayed, PartRef part) {
    if (!part) return add_lazily(std::move(delayed));
    add(std::move(delayed), std::move(part));
}

void Journal::put(PutEvent event) { add_lazily(std::move(event)); }

void Journal::cancel(CancelDelayed cancel, DelayedCancelled answer) {
    turn_.waiting.bytes += sizeof(DelayedCancelled);
    turn_.waiting.cancelled.push_back(answer);
    add(std::move(cancel));
}

void Journal::done(OwnerId owner, Stamp stamp) {
    // Another shard may store the message. If the store heard first that the owner is done, it
    // would treat the message as one that comes late, and the owner would get it again after a
    // restart.
    if (receipts_.note_done_if_collected(stamp, owner)) return;
    begin_turn();
    auto* last = turn_.operations.empty() ? nullptr : std::get_if<Done>(&turn_.operations.back());
    if (!last || last->owner != owner) return append(Done{.owner = owner, .beyond = {stamp}});
    turn_.waiting.bytes += sizeof(stamp);
    last->beyond.push_back(stamp);
}

void Journal::done(const Delivery& delivery) {
    for (const OwnerId owner : {delivery.owner, delivery.inbox})
        if (owner != 0) done(owner, delivery.message->stamp);
}

void Journal::stored(const MessageStored& message) {
    for (const OwnerId owner : receipts_.stored(message)) done(owner, message.stamp);
}

void Journal::flush() {
    thread_.assert_here();
    in_turn_ = false;
    if (turn_.operations.empty() && !turn_.is_urgent) return;
    // Taken out first, because answers may add operations to the next unit.
    Turn turn = std::exchange(turn_, {});
    if (!is_refused()) {
        bytes_ += turn.waiting.bytes;
        waiting_.push_back(std::move(turn.waiting));
        ++handed_in_;
        // Without this, clients might not be read for up to a second, only because the store waits
        // for more operations.
        const bool is_urgent = turn.is_urgent || bytes_ > most_lazy_bytes;
        host_.submit(std::move(turn.operations), is_urgent, generation_);
    } else {  // behind the refused operations, to keep the order
        UnitDone done{true, std::move(turn.operations), {}};
        answer(turn.waiting, done);
        keep(done, refused_.operations.size());
    }
}

void Journal::receive(UnitDone& done) {
    thread_.assert_here();
    Waiting unit = std::move(waiting_.front());
    waiting_.pop_front();
    ++answered_;
    bytes_ -= unit.bytes;
    if (waiting_.empty()) retrying_ = false;
    refused_.retried_bytes = 0;
    answer(unit, done);
    // Units are answered in order, and a retry is the only unit under way. So later operations are
    // kept behind these.
    if (done.refused) refused_.given_back += keep(done, refused_.given_back);
    // Nothing will be handed in again, so the generation grows here. Otherwise the store would go
    // on refusing units of this generation.
    if (done.refused && waiting_.empty() && refused_.operations.empty()) ++generation_;
    if (!done.refused && waiting_.empty()) take_up_refused(done);
    if (is_committed(last_return_)) last_return_ = 0;
    // Removed at once, because nothing counts as committed while a later unit is refused.
    while (!new_owners_.empty() && is_committed(new_owners_.front().unit)) new_owners_.pop_front();
}

/// The store works again: hands in the operations that were kept meanwhile. If there are none, the
/// waiting parts only wait for operations that have just been committed.
void Journal::take_up_refused(const UnitDone& done) {
    if (!refused_.operations.empty()) return hand_in_again();
    const auto parts = std::exchange(refused_.retried_parts, {});
    if (done.incomplete)
        for (const PartRef& part : parts) part->refuse();
}

void Journal::answer(Waiting& unit, const UnitDone& done) {
    // It is unknown which operation was left out, so all waiters of the unit are told of a refusal.
    if (done.refused || done.incomplete)
        for (const PartRef& part : unit.parts) part->refuse();
    if (done.incomplete)
        for (const PartRef& part : unit.retried_parts) part->refuse();
    if (done.refused)
        std::move(unit.retried_parts.begin(), unit.retried_parts.end(),
                  std::back_inserter(refused_.retried_parts));
    for (Promise& promise : unit.promises)
        if (done.refused)
            refused_.promises.push_back(std::move(promise));
        else
            for (const unsigned shard : promise.shards)
                host_.send(shard, MessageStored{promise.stamp});
    for (std::size_t i = 0; i < unit.cancelled.size(); ++i) {
        unit.cancelled[i].refused = done.refused;
        unit.cancelled[i].found = !done.refused && done.cancelled[i];
        host_.later(unit.cancelled[i]);
    }
}

/// Keeps refused operations to hand them in again, except operations that nobody was promised.
/// Returns how many it keeps.
std::size_t Journal::keep(UnitDone& done, std::size_t place) {
    std::erase_if(done.operations, [](const Operation& operation) {
        const auto* put = std::get_if<PutDelayed>(&operation);
        const auto* cancel = std::get_if<CancelDelayed>(&operation);
        const auto* event = std::get_if<PutEvent>(&operation);
        return (put && !put->is_promised) || (cancel && !cancel->is_promised) ||
               (event && !event->is_promised);
    });
    const std::size_t count = done.operations.size();
    refused_.operations.insert(place, std::move(done.operations));
    return count;
}

void Journal::tick() {
    thread_.assert_here();
    // Leaves nothing out while answers of earlier units must still be inserted among the
    // operations.
    if (retrying_ || waiting_.empty()) refused_.operations.leave_out_replaced();
    if (!waiting_.empty()) return;
    if (refused_.operations.empty()) {  // everything was committed, or was not promised
        std::exchange(refused_.retried_parts, {}).clear();
        if (host_.store_awaits_units()) await({});
        return;
    }
    retrying_ = true;
    hand_in_again();
}

void Journal::hand_in_again() {
    refused_.given_back = 0;
    // Clients are read again during a retry, because they have waited for a long time. So its bytes
    // are not added to `bytes_`.
    const std::size_t bytes = refused_.operations.bytes();
    (retrying_ ? refused_.retried_bytes : bytes_) += bytes;
    waiting_.push_back({.retried_parts = std::exchange(refused_.retried_parts, {}),
                        .bytes = retrying_ ? 0 : bytes,
                        .promises = std::exchange(refused_.promises, {})});
    ++handed_in_;
    host_.submit(refused_.operations.take(), true, ++generation_);
}

WallMillis as_wall_time(Millis when, Millis now) {
    return when == 0 ? 0 : wall_now() + (when - now);
}

Millis as_monotonic_time(WallMillis when, Millis now) {
    // Never 0, because 0 means "never". A time before the process began is set to 1.
    return when == 0 ? 0 : std::max<Millis>(now + (when - wall_now()), 1);
}

MessageRef message_of(const StoredMessage& stored, Millis now) {
    Message message = *stored.message;
    message.qos = static_cast<QoS>(stored.flags & 3);
    message.retain = (stored.flags & retain_flag) != 0;
    message.stamp = stored.stamp;
    message.sender = stored.sender;
    message.expires = as_monotonic_time(stored.expires, now);
    return share(std::move(message));
}

}  // namespace pulsegate
