#include "server/store/tables/waiting_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/base/sparse.h"

namespace pulsegate {

namespace {

void insert_sorted(std::vector<Stamp>& stamps, Stamp stamp) {
    const auto place = std::lower_bound(stamps.begin(), stamps.end(), stamp);
    if (place == stamps.end() || *place != stamp) stamps.insert(place, stamp);
}

void erase_sorted(std::vector<Stamp>& stamps, Stamp stamp) {
    const auto place = std::lower_bound(stamps.begin(), stamps.end(), stamp);
    if (place != stamps.end() && *place == stamp) stamps.erase(place);
}

void erase_upto(std::vector<Stamp>& stamps, Stamp upto) {
    stamps.erase(stamps.begin(), std::upper_bound(stamps.begin(), stamps.end(), upto));
}

}  // namespace

bool Cursor::has_done(Stamp stamp) const {
    return stamp <= upto || std::binary_search(beyond.begin(), beyond.end(), stamp);
}

void Cursor::add(const Done& done) {
    upto = std::max(upto, done.upto);
    for (const Stamp stamp : done.beyond) insert_sorted(beyond, stamp);
    erase_upto(beyond, upto);
}

void Cursor::reopen(Stamp stamp, const std::vector<Stamp>& done) {
    upto = std::min(upto, stamp - 1);
    for (const Stamp each : done) insert_sorted(beyond, each);
    erase_sorted(beyond, stamp);
}

bool WaitingIndex::is_due(OwnerId owner, Stamp stamp) const {
    const auto found = owners_.find(owner);
    if (found == owners_.end() || stamp <= found->second.upto) return false;
    return !std::ranges::binary_search(beyond(owner), stamp);
}

std::optional<Cursor> WaitingIndex::cursor(OwnerId owner) const {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return std::nullopt;
    return Cursor{.upto = found->second.upto, .beyond = beyond(owner)};
}

void WaitingIndex::add_owner(OwnerId owner, Cursor cursor) {
    note_done(cursor);
    if (owners_.try_emplace(owner, Owner{cursor.upto}).second)
        set_beyond(owner, std::move(cursor.beyond));
}

void WaitingIndex::end_owner(OwnerId owner) {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return;
    const auto waiting = std::move(found->second.waiting);
    owners_.erase(found);
    beyond_.erase(owner);
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
    const auto done = std::ranges::upper_bound(waiting.all(), cursor.upto) - waiting.all().begin();
    const auto done_count = static_cast<std::size_t>(done);
    for (const Stamp stamp : waiting.all().first(done_count)) release(stamp);
    waiting.erase_first(done_count);
    for (const Stamp stamp : cursor.beyond)
        if (waiting.erase(stamp)) release(stamp);

    // Those before the first waiting one need not be kept one by one.
    const auto first = waiting.empty()
                           ? cursor.beyond.end()
                           : std::ranges::lower_bound(cursor.beyond, waiting.all().front());
    if (first != cursor.beyond.begin()) cursor.upto = *std::prev(first);
    cursor.beyond.erase(cursor.beyond.begin(), first);
    upto = cursor.upto;
    set_beyond(owner, std::move(cursor.beyond));
    forget_deleted(owner);
}

const std::vector<Stamp>& WaitingIndex::beyond(OwnerId owner) const {
    static const std::vector<Stamp> none;
    const auto found = beyond_.find(owner);
    return found == beyond_.end() ? none : found->second.stamps;
}

void WaitingIndex::set_beyond(OwnerId owner, std::vector<Stamp> stamps) {
    if (stamps.empty())
        beyond_.erase(owner);
    else
        beyond_[owner].stamps = std::move(stamps);
}

/// As often as they have doubled: each is examined twice on average.
void WaitingIndex::forget_deleted(OwnerId owner) {
    const auto found = beyond_.find(owner);
    if (found == beyond_.end() || found->second.stamps.size() <= found->second.room) return;
    auto& [stamps, room] = found->second;
    std::erase_if(stamps, [this](Stamp stamp) {
        return !is_waited_for(stamp) && !undeleted_.contains(stamp);
    });
    room = 2 * stamps.size() + least_room;
    if (stamps.empty()) beyond_.erase(found);
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
    const Stamp latest = cursor.beyond.empty() ? cursor.upto : cursor.beyond.back();
    latest_done_ = std::max(latest_done_, latest);
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

/// After a crowd of messages. Nobody waits for this thread as for a shard's turn, so more may move.
void WaitingIndex::give_room_back() {
    constexpr std::size_t most_moved = 1'000'000;
    shrink_if_sparse(owners_, most_moved);
    shrink_if_sparse(beyond_, most_moved);
    shrink_if_sparse(awaited_, most_moved);
    shrink_if_sparse(further_, most_moved);
    shrink_if_sparse(undeleted_, most_moved);
    constexpr std::size_t small = 1024;
    if (dead_.capacity() > small && dead_.size() < dead_.capacity() / 8) dead_.shrink_to_fit();
}

std::size_t WaitingIndex::room() const {
    return owners_.bucket_count() + beyond_.bucket_count() + awaited_.bucket_count() +
           further_.bucket_count() + undeleted_.bucket_count() + dead_.capacity();
}

}  // namespace pulsegate
