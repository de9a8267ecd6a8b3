#include "server/store/tables/delayed_turns.h"

namespace pulsegate {

DelayedTurns::~DelayedTurns() {
    waiting_.clear();
    due_.clear();
}

void DelayedTurns::set(std::string_view user, std::optional<std::uint64_t> first) {
    const auto found = users_.find(user);
    if (found == users_.end()) {
        if (first) add(user, *first);
        return;
    }
    UserTurn& turn = *found->second;
    const bool stays_due = turn.is_due && first && *first < before_;
    if (!stays_due) leave(turn);
    if (!first) return void(users_.erase(found));
    turn.first = *first;
    if (!stays_due) enter(turn);
}

void DelayedTurns::add(std::string_view user, std::uint64_t id) {
    const auto found = users_.find(user);
    if (found != users_.end()) {
        if (id < found->second->first) set(user, id);
        return;
    }
    auto turn = std::make_unique<UserTurn>(user);
    turn->first = id;
    enter(*turn);
    const std::string_view name = turn->user;
    users_.emplace(name, std::move(turn));
}

void DelayedTurns::leave(UserTurn& turn) {
    if (turn.is_due) {
        due_.erase(due_.iterator_to(turn));
        --due_count_;
        turn.is_due = false;
    } else {
        waiting_.erase(waiting_.iterator_to(turn));
    }
}

void DelayedTurns::enter(UserTurn& turn) {
    turn.is_due = turn.first < before_;
    if (!turn.is_due) return void(waiting_.insert(turn));
    due_.push_back(turn);
    ++due_count_;
}

void DelayedTurns::advance(std::uint64_t before) {
    before_ = before;
    while (!waiting_.empty() && waiting_.begin()->first < before) {
        UserTurn& turn = *waiting_.begin();
        leave(turn);
        enter(turn);
    }
}

std::vector<std::string> DelayedTurns::next(std::size_t most) const {
    std::vector<std::string> users;
    for (const UserTurn& turn : due_) {
        if (users.size() == most) break;
        users.push_back(turn.user);
    }
    return users;
}

void DelayedTurns::served(std::string_view user) {
    const auto found = users_.find(user);
    if (found == users_.end() || !found->second->is_due) return;
    due_.splice(due_.end(), due_, due_.iterator_to(*found->second));
}

}  // namespace pulsegate
