#include "server/store/tables/cursor.h"

#include <algorithm>
#include <utility>

#include "server/store/rows/row_codec.h"

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
    return (stamp <= upto) != std::ranges::binary_search(exceptions, stamp);
}

void Cursor::add(const Done& done) {
    erase_upto(exceptions, done.upto);
    upto = std::max(upto, done.upto);
    for (const Stamp stamp : done.beyond)
        stamp <= upto ? erase_sorted(exceptions, stamp) : insert_sorted(exceptions, stamp);
}

void Cursor::reopen(Stamp stamp) {
    stamp <= upto ? insert_sorted(exceptions, stamp) : erase_sorted(exceptions, stamp);
}

CursorRow encode_cursor(const Cursor& cursor) {
    const auto& [upto, exceptions] = cursor;
    const auto later = std::ranges::upper_bound(exceptions, upto);
    if (later == exceptions.begin()) return {upto, encode_stamps(exceptions)};
    std::vector<Stamp> stamps(later, exceptions.end());
    for (auto early = exceptions.begin(); early != later; ++early)
        stamps.push_back(*early | early_bit);
    stamps.push_back(upto | early_bit);
    return {exceptions.front() - 1, encode_stamps(stamps)};
}

Cursor decode_cursor(Stamp upto, std::string_view beyond) {
    Done later{.beyond = decode_stamps(beyond)};
    std::vector<Stamp> early = take_early(later.beyond);
    const bool are_whole = early.size() >= 2 && early.front() == upto + 1;
    if (!are_whole) return {upto, std::move(later.beyond)};
    Cursor cursor{.upto = early.back()};
    early.pop_back();
    cursor.exceptions = std::move(early);
    cursor.add(later);
    return cursor;
}

}  // namespace pulsegate
