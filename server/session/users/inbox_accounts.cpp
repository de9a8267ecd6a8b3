#include "server/session/users/inbox_accounts.h"

namespace pulsegate {

std::optional<Limit> InboxAccounts::claim(Sender sender, const Share& more, const Share& most) {
    if (sender == gateway) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto found = shares_.find(sender);
    const Share has = found == shares_.end() ? Share{} : found->second;
    if (more.inboxes > 0 && has.inboxes + more.inboxes > most.inboxes)
        return Limit::max_inboxes_per_user;
    if (has.bytes + more.bytes > most.bytes) return Limit::max_inbox_bytes_per_user;
    Share& share = shares_[sender];
    share.inboxes += more.inboxes;
    share.bytes += more.bytes;
    return std::nullopt;
}

void InboxAccounts::add(Sender sender, const Share& more) {
    if (sender == gateway) return;
    const std::lock_guard lock(mutex_);
    Share& share = shares_[sender];
    share.inboxes += more.inboxes;
    share.bytes += more.bytes;
}

void InboxAccounts::subtract(Sender sender, const Share& less) {
    if (sender == gateway) return;
    const std::lock_guard lock(mutex_);
    const auto found = shares_.find(sender);
    found->second.inboxes -= less.inboxes;
    found->second.bytes -= less.bytes;
    if (found->second.inboxes == 0 && found->second.bytes == 0) shares_.erase(found);
}

bool InboxAccounts::open(std::size_t most) {
    const std::lock_guard lock(mutex_);
    if (inboxes_ >= most) return false;
    ++inboxes_;
    return true;
}

void InboxAccounts::open_anyway() {
    const std::lock_guard lock(mutex_);
    ++inboxes_;
}

void InboxAccounts::close() {
    const std::lock_guard lock(mutex_);
    --inboxes_;
}

}  // namespace pulsegate
