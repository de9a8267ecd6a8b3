#include "server/store/waiting_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pulsegate {

namespace {

void insert_sorted(std::vector<Stamp>& stamps, Stamp stamp) {
    const auto place = std::lower_bound(stamps.begin(), stamps.end(), stamp);
    if (place == stamps.end() || *place != stamp) stamps.insert(place, stamp);
}

bool erase_sorted(std::vector<Stamp>& stamps, Stamp stamp) {
    const auto place = std::lower_bound(stamps.begin(), stamps.end(), stamp);
    if (place == stamps.end() || *place != stamp) return false;
    stamps.erase(place);
    return true;
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
    upto = stamp - 1;
    for (const Stamp each : done) insert_sorted(beyond, each);
}

const Cursor* WaitingIndex::cursor(OwnerId owner) const {
    const auto found = owners_.find(owner);
    return found == owners_.end() ? nullptr : &found->second.cursor;
}

void WaitingIndex::add_owner(OwnerId owner, Cursor cursor) {
    done_upto_ = std::max(done_upto_, cursor.upto);
    owners_.try_emplace(owner, Queue{std::move(cursor)});
}

void WaitingIndex::end_owner(OwnerId owner) {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return;
    const auto waiting = std::move(found->second.waiting);
    owners_.erase(found);
    for (const Stamp stamp : waiting) release(stamp);
}

void WaitingIndex::add_message(Stamp stamp, const std::vector<Receiver>& receivers) {
    std::uint32_t added = 0;
    for (const Receiver& receiver : receivers) {
        const auto found = owners_.find(receiver.owner);
        if (found == owners_.end()) continue;
        auto& [cursor, waiting] = found->second;
        if (std::binary_search(cursor.beyond.begin(), cursor.beyond.end(), stamp)) continue;
        const auto before = waiting.size();
        insert_sorted(waiting, stamp);
        added += static_cast<std::uint32_t>(waiting.size() - before);
    }
    if (added > 0)
        references_[stamp] += added;
    else if (!is_waited_for(stamp))
        dead_.push_back(stamp);
}

void WaitingIndex::set_cursor(OwnerId owner, Cursor cursor) {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return;
    Queue& queue = found->second;
    const auto done = std::upper_bound(queue.waiting.begin(), queue.waiting.end(), cursor.upto);
    std::for_each(queue.waiting.begin(), done, [&](Stamp stamp) { release(stamp); });
    queue.waiting.erase(queue.waiting.begin(), done);
    for (const Stamp stamp : cursor.beyond)
        if (erase_sorted(queue.waiting, stamp)) release(stamp);

    // Those before the first waiting one need not be kept one by one.
    const auto first =
        queue.waiting.empty()
            ? cursor.beyond.end()
            : std::lower_bound(cursor.beyond.begin(), cursor.beyond.end(), queue.waiting.front());
    if (first != cursor.beyond.begin()) cursor.upto = *std::prev(first);
    cursor.beyond.erase(cursor.beyond.begin(), first);
    done_upto_ = std::max(done_upto_, cursor.upto);
    queue.cursor = std::move(cursor);
}

void WaitingIndex::release(Stamp stamp) {
    const auto found = references_.find(stamp);
    if (--found->second > 0) return;
    references_.erase(found);
    dead_.push_back(stamp);
}

void WaitingIndex::forget_dead(std::size_t count) {
    dead_.erase(dead_.begin(), dead_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace pulsegate
