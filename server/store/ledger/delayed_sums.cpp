#include "server/store/ledger/delayed_sums.h"

#include <utility>

namespace pulsegate {

DelayedClaim::~DelayedClaim() {
    const std::lock_guard lock(sums_->mutex_);
    sums_->release(*this);
}

DelayedClaimRef DelayedSums::claim(const std::string& user, const DelayedTotal& room,
                                   const Fits& fits) {
    const std::lock_guard lock(mutex_);
    const auto with_room = [&](const Sum& sum) {
        DelayedTotal total = sum.stored;
        total += sum.claimed;
        return total += room;
    };
    const auto known = users_.find(user);
    const Sum of_user = known == users_.end() ? Sum{} : known->second;
    if (!fits(with_room(all_), with_room(of_user))) return nullptr;
    users_[user].claimed += room;
    all_.claimed += room;
    return std::make_shared<DelayedClaim>(shared_from_this(), user, room);
}

DelayedTotal DelayedSums::stored(const std::optional<std::string>& user) const {
    const std::lock_guard lock(mutex_);
    if (!user) return all_.stored;
    const auto found = users_.find(*user);
    return found == users_.end() ? DelayedTotal{} : found->second.stored;
}

void DelayedSums::apply(const Changes& changes, const std::vector<DelayedClaimRef>& claims) {
    const std::lock_guard lock(mutex_);
    for (const auto& [user, change] : changes) {
        Sum& own = users_[user];
        for (Sum* sum : {&own, &all_}) {
            sum->stored.messages += static_cast<std::size_t>(change.messages);
            sum->stored.bytes += static_cast<std::size_t>(change.bytes);
        }
        if (own.stored.messages == 0 && own.claimed.messages == 0) users_.erase(user);
    }
    for (const DelayedClaimRef& claim : claims) release(*claim);
}

void DelayedSums::release(DelayedClaim& claim) {
    const DelayedTotal room = std::exchange(claim.room_, {});
    if (room == DelayedTotal{}) return;
    all_.claimed -= room;
    const auto found = users_.find(claim.user_);
    found->second.claimed -= room;
    if (found->second.stored.messages == 0 && found->second.claimed.messages == 0)
        users_.erase(found);
}

}  // namespace pulsegate
