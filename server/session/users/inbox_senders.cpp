#include "server/session/users/inbox_senders.h"

#include <algorithm>
#include <limits>

namespace pulsegate {

namespace {

/// How many inboxes of one sender a search examines to find one that gives way. The next search
/// continues after them.
constexpr std::size_t examined_at_a_time = 16;

/// An inbox with more senders is not examined, and stays.
constexpr std::size_t most_senders_examined = 64;

/// A message's bytes in memory when its body is left to the store.
constexpr std::size_t bytes_of_entry = 48;

}  // namespace

void InboxSenders::add(const Outbox& inbox, Sender sender, std::size_t bytes) {
    Part& part = parts_[&inbox][sender];
    OfSender& all = senders_[sender];
    ++all.messages;
    all.bytes += bytes;
    InboxAccounts::Share more{.bytes = bytes};
    if (part.messages++ == 0) {
        part.number = ++last_number_;
        all.inboxes.emplace(part.number, &inbox);
        recount(sender, all.inboxes.size() - 1, all.inboxes.size());
        more.inboxes = 1;
        more.bytes += bytes_of_inbox;
    }
    accounts_.add(sender, more);
}

void InboxSenders::remove(const Outbox& inbox, Sender sender, std::size_t bytes) {
    const auto parts = parts_.find(&inbox);
    const auto part = parts->second.find(sender);
    const auto of_sender = senders_.find(sender);
    OfSender& all = of_sender->second;
    --all.messages;
    all.bytes -= bytes;
    InboxAccounts::Share less{.bytes = bytes};
    if (--part->second.messages == 0) {
        all.inboxes.erase(part->second.number);
        recount(sender, all.inboxes.size() + 1, all.inboxes.size());
        if (all.inboxes.empty()) senders_.erase(of_sender);
        parts->second.erase(part);
        if (parts->second.empty()) parts_.erase(parts);
        less.inboxes = 1;
        less.bytes += bytes_of_inbox;
    }
    accounts_.subtract(sender, less);
}

void InboxSenders::recount(Sender sender, std::size_t before, std::size_t now) {
    if (sender == InboxAccounts::gateway) return;
    if (before > 0) by_count_.erase({before, sender});
    if (now > 0) by_count_.emplace(now, sender);
}

bool InboxSenders::takes_part(const Outbox& inbox, Sender sender) const {
    const auto parts = parts_.find(&inbox);
    return parts != parts_.end() && parts->second.contains(sender);
}

/// How many inboxes have messages of the sender. For the gateway 0: its own messages never give
/// way, and may replace inboxes of any sender with more.
std::size_t InboxSenders::count_of(Sender sender) const {
    if (sender == InboxAccounts::gateway) return 0;
    const auto found = senders_.find(sender);
    return found == senders_.end() ? 0 : found->second.inboxes.size();
}

std::size_t InboxSenders::least_count(const Parts& parts) const {
    if (parts.size() > most_senders_examined) return 0;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const auto& [sender, part] : parts) least = std::min(least, count_of(sender));
    return least;
}

const Outbox* InboxSenders::surplus(Sender newcomer, const MayEnd& may_end) {
    const std::size_t wanted = count_of(newcomer) + 1;
    if (by_count_.empty() || by_count_.rbegin()->first <= wanted) return nullptr;
    OfSender& largest = senders_.find(by_count_.rbegin()->second)->second;
    const Outbox* found = nullptr;
    std::size_t most = wanted;
    auto next = largest.inboxes.upper_bound(largest.examined);
    const std::size_t room = std::min(examined_at_a_time, largest.inboxes.size());
    for (std::size_t left = room; left > 0; --left, ++next) {
        if (next == largest.inboxes.end()) next = largest.inboxes.begin();
        const auto& [number, inbox] = *next;
        const Parts& parts = parts_.find(inbox)->second;
        work_ += 1 + parts.size() / 4;
        largest.examined = number;
        const std::size_t least = least_count(parts);
        if (least <= most || !may_end(*inbox)) continue;
        found = inbox;
        most = least;
        if (least == largest.inboxes.size()) break;  // no inbox can be better
    }
    return found;
}

std::size_t InboxSenders::OfSender::cost(bool with_bodies) const {
    return inboxes.size() * bytes_of_inbox + (with_bodies ? bytes : messages * bytes_of_entry);
}

/// A sender that gets more inboxes meanwhile may count twice. A sender that loses some may not
/// count at all.
bool InboxSenders::find_largest(Search& search, bool with_bodies) const {
    constexpr std::size_t senders_a_turn = 4096;
    std::size_t left = senders_a_turn;
    Largest& largest = search.largest;
    for (auto next = by_count_.upper_bound(search.examined); next != by_count_.end(); ++next) {
        if (left-- == 0) return false;
        search.examined = *next;
        const Sender sender = next->second;
        const OfSender& all = senders_.find(sender)->second;
        const std::size_t bytes = all.cost(with_bodies);
        largest.sum += bytes;
        ++largest.holders;
        if (bytes <= largest.bytes) continue;
        largest.sender = sender;
        largest.inboxes = all.inboxes.size();
        largest.bytes = bytes;
    }
    return true;
}

std::vector<const Outbox*> InboxSenders::inboxes_of(Sender sender, std::size_t most) const {
    std::vector<const Outbox*> found;
    const auto of_sender = senders_.find(sender);
    if (of_sender == senders_.end()) return found;
    for (const auto& [number, inbox] : of_sender->second.inboxes) {
        if (found.size() == most) break;
        found.push_back(inbox);
    }
    return found;
}

}  // namespace pulsegate
