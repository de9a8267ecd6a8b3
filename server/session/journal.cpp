#include "server/session/journal.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace pulsegate {

void Journal::begin_turn() {
    thread_.assert_here();
    if (!std::exchange(in_turn_, true)) host_.send(place_.index, JournalTurn{});
}

void Journal::add(Operation operation, DebtRef debt) {
    begin_turn();
    operations_.push_back(std::move(operation));
    await(std::move(debt));
}

void Journal::await(DebtRef debt) {
    begin_turn();
    if (debt && (debts_.empty() || debts_.back() != debt)) debts_.push_back(std::move(debt));
    urgent_ = true;
}

void Journal::add_lazily(Operation operation) {
    begin_turn();
    operations_.push_back(std::move(operation));
}

void Journal::put(const MessageRef& message, Receiver receiver, DebtRef debt, Millis now) {
    begin_turn();
    auto* last = operations_.empty() ? nullptr : std::get_if<PutMessage>(&operations_.back());
    if (!last || last->stamp != message->stamp) {
        operations_.push_back(PutMessage{.stamp = message->stamp,
                                         .expires = as_wall_time(message->expires, now),
                                         .flags = static_cast<std::uint32_t>(message->qos),
                                         .message = message});
        last = std::get_if<PutMessage>(&operations_.back());
        turn_bytes_ += message->cost();
        ++messages_;
    }
    last->receivers.push_back(std::move(receiver));
    await(std::move(debt));
}

void Journal::put(PutDelayed delayed, DebtRef debt) {
    turn_bytes_ += delayed.message->cost();
    if (!debt) return add_lazily(std::move(delayed));
    add(std::move(delayed), std::move(debt));
}

void Journal::done(OwnerId owner, Stamp stamp) {
    begin_turn();
    auto* last = operations_.empty() ? nullptr : std::get_if<Done>(&operations_.back());
    if (last && last->owner == owner) return last->beyond.push_back(stamp);
    operations_.push_back(Done{.owner = owner, .beyond = {stamp}});
}

void Journal::flush() {
    thread_.assert_here();
    in_turn_ = false;
    if (operations_.empty() && debts_.empty()) return;
    if (!is_refused()) {
        bytes_ += turn_bytes_;
        waiting_.push_back({std::move(debts_), turn_bytes_});
        host_.submit(std::move(operations_), urgent_);
    } else {  // behind what was refused, or the order would be lost
        for (const DebtRef& debt : debts_) debt->refuse();
        std::move(operations_.begin(), operations_.end(), std::back_inserter(refused_));
    }
    operations_.clear();
    debts_.clear();
    turn_bytes_ = 0;
    urgent_ = false;
}

void Journal::receive(UnitDone& done) {
    thread_.assert_here();
    const Waiting unit = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= unit.bytes;
    if (waiting_.empty()) retrying_ = false;
    if (!done.refused) {
        if (waiting_.empty() && !refused_.empty()) hand_in_again();  // what came meanwhile
        return;
    }
    for (const DebtRef& debt : unit.debts) debt->refuse();
    // Units are answered in their order, and a retry is alone: what came meanwhile is younger.
    const auto place = refused_.begin() + static_cast<std::ptrdiff_t>(given_back_);
    given_back_ += done.operations.size();
    refused_.insert(place, std::move_iterator(done.operations.begin()),
                    std::move_iterator(done.operations.end()));
}

void Journal::tick() {
    thread_.assert_here();
    if (refused_.empty() || !waiting_.empty()) return;
    retrying_ = true;
    hand_in_again();
}

void Journal::hand_in_again() {
    given_back_ = 0;
    waiting_.push_back({{}, 0});
    host_.submit(std::exchange(refused_, {}), true);
}

WallMillis as_wall_time(Millis when, Millis now) {
    return when == 0 ? 0 : wall_now() + (when - now);
}

Millis as_monotonic_time(WallMillis when, Millis now) {
    // Never 0, which is "never", nor before the process began.
    return when == 0 ? 0 : std::max<Millis>(now + (when - wall_now()), 1);
}

}  // namespace pulsegate
