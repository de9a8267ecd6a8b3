#include "server/store/tables/delayed_turns.h"

namespace pulsegate {

DelayedTurns::~DelayedTurns() {
    waiting_.clear();
    due_.clear();
}

void DelayedTurns::set(std::string_view user, std::optional<std::uint64_t> first) {
    const auto found = places_.find(user);
    if (found == places_.end()) {
        if (first) add(user, *first);
        return;
    }
    Place& place = *found->second;
    const bool stays_due = place.is_due && first && *first < before_;
    if (!stays_due) leave(place);
    if (!first) return void(places_.erase(found));
    place.first = *first;
    if (!stays_due) enter(place);
}

void DelayedTurns::add(std::string_view user, std::uint64_t id) {
    const auto found = places_.find(user);
    if (found != places_.end()) {
        if (id < found->second->first) set(user, id);
        return;
    }
    auto place = std::make_unique<Place>(user);
    place->first = id;
    enter(*place);
    const std::string_view name = place->user;
    places_.emplace(name, std::move(place));
}

void DelayedTurns::leave(Place& place) {
    if (place.is_due) {
        due_.erase(due_.iterator_to(place));
        --due_count_;
        place.is_due = false;
    } else {
        waiting_.erase(waiting_.iterator_to(place));
    }
}

void DelayedTurns::enter(Place& place) {
    place.is_due = place.first < before_;
    if (!place.is_due) return void(waiting_.insert(place));
    due_.push_back(place);
    ++due_count_;
}

void DelayedTurns::advance(std::uint64_t before) {
    before_ = before;
    while (!waiting_.empty() && waiting_.begin()->first < before) {
        Place& place = *waiting_.begin();
        leave(place);
        enter(place);
    }
}

std::vector<std::string> DelayedTurns::next(std::size_t most) const {
    std::vector<std::string> users;
    for (const Place& place : due_) {
        if (users.size() == most) break;
        users.push_back(place.user);
    }
    return users;
}

void DelayedTurns::served(std::string_view user) {
    const auto found = places_.find(user);
    if (found == places_.end() || !found->second->is_due) return;
    due_.splice(due_.end(), due_, due_.iterator_to(*found->second));
}

}  // namespace pulsegate
