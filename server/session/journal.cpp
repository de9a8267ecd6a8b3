#include "server/session/journal.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "server/session/sender_shares.h"

namespace pulsegate {

void Journal::begin_turn() {
    thread_.assert_here();
    if (!std::exchange(in_turn_, true)) host_.send(place_.index, JournalTurn{});
}

void Journal::add(Operation operation, DebtRef debt) {
    begin_turn();
    const auto* put = std::get_if<PutOwner>(&operation);
    if (put && (new_owners_.empty() || put->owner > new_owners_.back().owner))
        new_owners_.push_back({put->owner, unit()});
    operations_.push_back(std::move(operation));
    await(std::move(debt));
}

void Journal::await(DebtRef debt) {
    begin_turn();
    if (debt && (debts_.empty() || debts_.back() != debt)) debts_.push_back(std::move(debt));
    urgent_ = true;
}

void Journal::await_patiently(DebtRef debt) {
    begin_turn();
    patient_debts_.push_back(std::move(debt));
    urgent_ = true;
}

bool Journal::is_new(OwnerId owner) {
    while (!new_owners_.empty() && is_committed(new_owners_.front().unit)) new_owners_.pop_front();
    return !new_owners_.empty() && owner >= new_owners_.front().owner;
}

void Journal::add_lazily(Operation operation) {
    begin_turn();
    operations_.push_back(std::move(operation));
}

void Journal::put(const MessageRef& message, Receiver receiver, DebtRef debt, Millis now) {
    begin_turn();
    put_owner_first(message->stamp);
    auto* last = operations_.empty() ? nullptr : std::get_if<PutMessage>(&operations_.back());
    if (!last || last->stamp != message->stamp) {
        operations_.push_back(PutMessage{.stamp = message->stamp,
                                         .expires = as_wall_time(message->expires, now),
                                         .flags = static_cast<std::uint32_t>(message->qos),
                                         .sender = SenderShares::sender(*message),
                                         .message = message});
        last = std::get_if<PutMessage>(&operations_.back());
        turn_bytes_ += message->cost();
        ++messages_;
    }
    last->receivers.push_back(std::move(receiver));
    await(std::move(debt));
}

/// A room's message may need an inbox for each of very many members: it is one operation behind all
/// of these owners, for the store merges the receivers of each with those before.
void Journal::put_owner_first(Stamp stamp) {
    const std::size_t count = operations_.size();
    if (count < 2 || !std::holds_alternative<PutOwner>(operations_.back())) return;
    const auto* const put = std::get_if<PutMessage>(&operations_[count - 2]);
    if (put && put->stamp == stamp) std::swap(operations_[count - 2], operations_.back());
}

void Journal::put(const MessageRef& message, Collected collected, const DebtRef& debt, Millis now) {
    for (Receiver& receiver : collected.receivers) put(message, std::move(receiver), debt, now);
    if (!collected.shards.empty())
        promises_.push_back({message->stamp, std::move(collected.shards)});
}

void Journal::put(PutDelayed delayed, DebtRef debt) {
    turn_bytes_ += delayed.message->cost();
    if (!debt) return add_lazily(std::move(delayed));
    add(std::move(delayed), std::move(debt));
}

void Journal::put(PutEvent event) {
    turn_bytes_ += event.body.size();
    add_lazily(std::move(event));
}

void Journal::cancel(CancelDelayed cancel, DelayedCancelled answer) {
    constexpr std::size_t bookkeeping = 256;
    turn_bytes_ += bookkeeping + cancel.name.size();
    cancelled_.push_back(answer);
    add(std::move(cancel));
}

void Journal::done(OwnerId owner, Stamp stamp) {
    // Another shard may store it. What is done before it is stored, the store would take for a
    // message that comes late, and the owner would get it again after a restart.
    if (receipts_.note_done_if_collected(stamp, owner)) return;
    begin_turn();
    auto* last = operations_.empty() ? nullptr : std::get_if<Done>(&operations_.back());
    if (last && last->owner == owner) return last->beyond.push_back(stamp);
    operations_.push_back(Done{.owner = owner, .beyond = {stamp}});
}

void Journal::stored(const MessageStored& message) {
    for (const OwnerId owner : receipts_.stored(message)) done(owner, message.stamp);
}

void Journal::flush() {
    thread_.assert_here();
    in_turn_ = false;
    if (operations_.empty() && debts_.empty() && patient_debts_.empty()) return;
    // Out of here first: whoever is answered below may add to the next unit.
    auto operations = std::exchange(operations_, {});
    Waiting unit{std::exchange(debts_, {}), std::exchange(patient_debts_, {}),
                 std::exchange(turn_bytes_, 0), std::exchange(cancelled_, {}),
                 std::exchange(promises_, {})};
    const bool is_urgent = std::exchange(urgent_, false);
    if (!is_refused()) {
        bytes_ += unit.bytes;
        waiting_.push_back(std::move(unit));
        ++handed_in_;
        host_.submit(std::move(operations), is_urgent, generation_);
    } else {  // behind what was refused, or the order would be lost
        UnitDone done{true, std::move(operations), {}};
        answer(unit, done);
        keep(done, refused_.size());
    }
}

void Journal::receive(UnitDone& done) {
    thread_.assert_here();
    Waiting unit = std::move(waiting_.front());
    waiting_.pop_front();
    ++answered_;
    bytes_ -= unit.bytes;
    if (waiting_.empty()) retrying_ = false;
    answer(unit, done);
    // Units are answered in their order, and a retry is alone: what came meanwhile is younger.
    if (done.refused) given_back_ += keep(done, given_back_);
    if (!done.refused && waiting_.empty() && !refused_.empty())
        hand_in_again();  // what came meanwhile
}

void Journal::answer(Waiting& unit, const UnitDone& done) {
    // Whose operation was left out is not known, so all are told that theirs may have been.
    if (done.refused || done.incomplete)
        for (const DebtRef& debt : unit.debts) debt->refuse();
    if (done.refused)
        std::move(unit.patient_debts.begin(), unit.patient_debts.end(),
                  std::back_inserter(refused_debts_));
    for (Promise& promise : unit.promises)
        if (done.refused)
            refused_promises_.push_back(std::move(promise));
        else
            for (const unsigned shard : promise.shards)
                host_.send(shard, MessageStored{promise.stamp});
    for (std::size_t i = 0; i < unit.cancelled.size(); ++i) {
        unit.cancelled[i].refused = done.refused;
        unit.cancelled[i].found = !done.refused && done.cancelled[i];
        host_.send(place_.index, unit.cancelled[i]);
    }
}

/// Keeps what was refused, to be handed in again, but what nobody was promised. Returns how much.
std::size_t Journal::keep(UnitDone& done, std::size_t place) {
    std::erase_if(done.operations, [](const Operation& operation) {
        const auto* put = std::get_if<PutDelayed>(&operation);
        const auto* cancel = std::get_if<CancelDelayed>(&operation);
        const auto* event = std::get_if<PutEvent>(&operation);
        return (put && !put->is_promised) || (cancel && !cancel->is_promised) ||
               (event && !event->is_promised);
    });
    refused_.insert(refused_.begin() + static_cast<std::ptrdiff_t>(place),
                    std::move_iterator(done.operations.begin()),
                    std::move_iterator(done.operations.end()));
    return done.operations.size();
}

void Journal::tick() {
    thread_.assert_here();
    if (!waiting_.empty()) return;
    if (refused_.empty()) {  // all is committed, or was promised to nobody
        std::exchange(refused_debts_, {}).clear();
        return;
    }
    retrying_ = true;
    hand_in_again();
}

void Journal::hand_in_again() {
    given_back_ = 0;
    waiting_.push_back({.patient_debts = std::exchange(refused_debts_, {}),
                        .promises = std::exchange(refused_promises_, {})});
    ++handed_in_;
    host_.submit(std::exchange(refused_, {}), true, ++generation_);
}

WallMillis as_wall_time(Millis when, Millis now) {
    return when == 0 ? 0 : wall_now() + (when - now);
}

Millis as_monotonic_time(WallMillis when, Millis now) {
    // Never 0, which is "never", nor before the process began.
    return when == 0 ? 0 : std::max<Millis>(now + (when - wall_now()), 1);
}

MessageRef message_of(const StoredMessage& stored, Millis now) {
    Message message = *stored.message;
    message.qos = static_cast<QoS>(stored.flags & 3);
    message.stamp = stored.stamp;
    message.sender = stored.sender;
    message.expires = as_monotonic_time(stored.expires, now);
    return share(std::move(message));
}

}  // namespace pulsegate
