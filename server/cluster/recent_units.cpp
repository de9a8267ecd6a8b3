#include "server/cluster/recent_units.h"

#include <set>
#include <utility>

namespace pulsegate {

namespace {

/// The approximate memory of a change.
std::size_t memory_of(const RowChange& change) {
    return sizeof change + change.key.table.size() + change.key.field.size() +
           (change.value ? change.value->size() : 0);
}

/// Compares the rows of two changes. The changes must not move meanwhile.
struct SameRow {
    bool operator()(const RowChange* a, const RowChange* b) const { return a->key < b->key; }
};

}  // namespace

void RecentUnits::add(Millis now, std::vector<RowChange> changes) {
    std::size_t bytes = sizeof(Unit);
    for (const RowChange& change : changes) bytes += memory_of(change);
    units_.push_back({now, bytes, std::move(changes)});
    bytes_ += bytes;
    keep(now);
    while (bytes_ > most_bytes_) {
        dropped_bytes_ += units_.front().bytes;
        drop_oldest();
    }
}

void RecentUnits::keep(Millis now) {
    while (!units_.empty() && units_.front().when < now - kept_for) drop_oldest();
}

void RecentUnits::renew(Millis now) {
    for (Unit& unit : units_) unit.when = now;
}

void RecentUnits::clear() {
    units_.clear();
    bytes_ = 0;
}

std::map<Partition, std::vector<const RowChange*>> RecentUnits::tail() const {
    std::set<const RowChange*, SameRow> seen;
    std::map<Partition, std::vector<const RowChange*>> tail;
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit)
        for (const RowChange& change : unit->changes)
            if (seen.insert(&change).second) tail[change.key.partition].push_back(&change);
    return tail;
}

void RecentUnits::drop_oldest() {
    bytes_ -= units_.front().bytes;
    units_.pop_front();
}

}  // namespace pulsegate
