#include "server/store/tables/waiting_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/base/memory/sparse.h"

namespace pulsegate {

bool WaitingIndex::is_due(OwnerId owner, Stamp stamp) const {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return false;
    return (stamp <= found->second.upto) == std::ranges::binary_search(exceptions(owner), stamp);
}

std::optional<Cursor> WaitingIndex::cursor(OwnerId owner) const {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return std::nullopt;
    return Cursor{.upto = found->second.upto, .exceptions = exceptions(owner)};
}

void WaitingIndex::add_owner(OwnerId owner, Cursor cursor) {
    note_done(cursor);
    if (owners_.try_emplace(owner, Owner{cursor.upto}).second)
        set_exceptions(owner, std::move(cursor.exceptions));
}

void WaitingIndex::end_owner(OwnerId owner) {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return;
    const auto waiting = std::move(found->second.waiting);
    owners_.erase(found);
    exceptions_.erase(owner);
    for (const Stamp stamp : waiting.all()) release(stamp);
}

void WaitingIndex::add_message(Stamp stamp, const std::vector<Receiver>& receivers) {
    std::uint32_t added = 0;
    for (const Receiver& receiver : receivers) {
        const auto found = owners_.find(receiver.owner);
        if (found == owners_.end()) continue;
        if (found->second.waiting.insert(stamp)) ++added;
    }
    if (added > 0)
        await(stamp, added);
    else if (!is_waited_for(stamp))
        add_dead(stamp);
}

void WaitingIndex::set_cursor(OwnerId owner, Cursor cursor) {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return;
    note_done(cursor);
    auto& [upto, waiting] = found->second;
    release_done(waiting, cursor);

    // Raises the cursor to the last done message before the next waiting one. This needs no
    // exceptions below it.
    std::vector<Stamp>& exceptions = cursor.exceptions;
    const auto next = std::ranges::upper_bound(waiting.all(), cursor.upto);
    const auto first = std::ranges::upper_bound(exceptions, cursor.upto);
    const auto last = next == waiting.all().end()
                          ? exceptions.end()
                          : std::lower_bound(first, exceptions.end(), *next);
    if (first != last) cursor.upto = *std::prev(last);
    exceptions.erase(first, last);
    upto = cursor.upto;
    set_exceptions(owner, std::move(exceptions));
    forget_deleted(owner);
}

void WaitingIndex::release_done(StampSet& waiting, const Cursor& cursor) {
    const auto later = std::ranges::upper_bound(cursor.exceptions, cursor.upto);
    const auto below = waiting.all().first(static_cast<std::size_t>(
        std::ranges::upper_bound(waiting.all(), cursor.upto) - waiting.all().begin()));
    std::vector<Stamp> done;
    std::set_difference(below.begin(), below.end(), cursor.exceptions.begin(), later,
                        std::back_inserter(done));
    if (done.size() == below.size())
        waiting.erase_first(done.size());
    else
        for (const Stamp stamp : done) waiting.erase(stamp);
    for (const Stamp stamp : done) release(stamp);
    for (auto each = later; each != cursor.exceptions.end(); ++each)
        if (waiting.erase(*each)) release(*each);
}

const std::vector<Stamp>& WaitingIndex::exceptions(OwnerId owner) const {
    static const std::vector<Stamp> none;
    const auto found = exceptions_.find(owner);
    return found == exceptions_.end() ? none : found->second.stamps;
}

void WaitingIndex::set_exceptions(OwnerId owner, std::vector<Stamp> stamps) {
    if (stamps.empty())
        exceptions_.erase(owner);
    else
        exceptions_[owner].stamps = std::move(stamps);
}

/// Runs when the exceptions have doubled, so each of them is examined twice on average.
void WaitingIndex::forget_deleted(OwnerId owner) {
    const auto found = exceptions_.find(owner);
    if (found == exceptions_.end() || found->second.stamps.size() <= found->second.room) return;
    auto& [stamps, room] = found->second;
    std::erase_if(stamps, [this](Stamp stamp) {
        return !is_waited_for(stamp) && !undeleted_.contains(stamp);
    });
    room = 2 * stamps.size() + least_room;
    if (stamps.empty()) exceptions_.erase(found);
}

void WaitingIndex::add_dead(Stamp stamp) {
    dead_.push_back(stamp);
    undeleted_.insert(stamp);
}

void WaitingIndex::await(Stamp stamp, std::uint32_t owners) {
    if (awaited_.insert(stamp).second) --owners;
    if (owners > 0) further_[stamp] += owners;
}

void WaitingIndex::note_done(const Cursor& cursor) {
    latest_done_ = std::max(latest_done_, cursor.upto);
    if (!cursor.exceptions.empty()) latest_done_ = std::max(latest_done_, cursor.exceptions.back());
}

void WaitingIndex::release(Stamp stamp) {
    const auto further = further_.find(stamp);
    if (further == further_.end()) {
        awaited_.erase(stamp);
        add_dead(stamp);
    } else if (--further->second == 0) {
        further_.erase(further);
    }
}

void WaitingIndex::forget_dead(std::size_t count) {
    const auto end = dead_.begin() + static_cast<std::ptrdiff_t>(count);
    std::for_each(dead_.begin(), end, [this](Stamp stamp) { undeleted_.erase(stamp); });
    dead_.erase(dead_.begin(), end);
    give_room_back();
}

/// Frees memory after many messages were deleted. This thread may move more entries at once than a
/// shard, because its delay matters less.
void WaitingIndex::give_room_back() {
    constexpr std::size_t most_moved = 1'000'000;
    shrink_if_sparse(owners_, most_moved);
    shrink_if_sparse(exceptions_, most_moved);
    shrink_if_sparse(awaited_, most_moved);
    shrink_if_sparse(further_, most_moved);
    shrink_if_sparse(undeleted_, most_moved);
    constexpr std::size_t small = 1024;
    if (dead_.capacity() > small && dead_.size() < dead_.capacity() / 8) dead_.shrink_to_fit();
}

std::size_t WaitingIndex::room() const {
    return owners_.bucket_count() + exceptions_.bucket_count() + awaited_.bucket_count() +
           further_.bucket_count() + undeleted_.bucket_count() + dead_.capacity();
}

}  // namespace pulsegate
