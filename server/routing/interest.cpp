#include "server/routing/interest.h"

#include <cstdlib>
#include <new>

#include "protocol/topic.h"

namespace pulsegate {

namespace {

constexpr std::uint8_t top = 255;

std::string_view first_level_of(std::string_view topic) { return topic.substr(0, topic.find('/')); }

/// The array, which is allocated if it is not there yet. Its pages are taken when they are touched.
template <class Cell>
Cell* allocated(std::atomic<Cell*>& place, std::size_t size) {
    if (Cell* const there = place.load()) return there;
    auto* const made = static_cast<Cell*>(std::calloc(size, sizeof(Cell)));
    if (!made) throw std::bad_alloc();
    Cell* other = nullptr;
    if (place.compare_exchange_strong(other, made)) return made;
    std::free(made);
    return other;
}

void change(std::atomic<std::uint8_t>& cell, int by) {
    std::uint8_t count = cell.load();
    while (count != top &&
           !cell.compare_exchange_weak(count, static_cast<std::uint8_t>(count + by))) {
    }
}

}  // namespace

Interest::~Interest() {
    for (auto& table : tables_) std::free(table.load());
    std::free(levels_.load());
}

Interest::Table Interest::table_for_next() const {
    const auto filters = filters_.load();
    Table table = 0;
    while (filters >= filters_of[table]) ++table;
    return table;
}

Interest::Table Interest::add(std::string_view filter) {
    if (!has_wildcard(filter)) {
        const Table table = table_for_next();
        ++filters_;
        change(allocated(tables_[table], cells_of[table])[keyed_hash(filter) % cells_of[table]], 1);
        return table;
    }
    const auto level = first_level_of(filter);
    if (has_wildcard(level))
        ++anything_;
    else
        ++allocated(levels_, level_cells)[keyed_hash(level) % level_cells];
    return 0;
}

void Interest::remove(std::string_view filter, Table table) {
    if (!has_wildcard(filter)) {
        --filters_;
        return change(tables_[table].load()[keyed_hash(filter) % cells_of[table]], -1);
    }
    const auto level = first_level_of(filter);
    if (has_wildcard(level))
        --anything_;
    else
        --levels_.load()[keyed_hash(level) % level_cells];
}

std::size_t Interest::Topic::first_level() const {
    if (!first_level_) first_level_ = keyed_hash(first_level_of(text)) % level_cells;
    return *first_level_;
}

bool Interest::may_match(const Topic& topic) const {
    if (anything_ != 0) return true;
    for (std::size_t table = 0; table < tables; ++table) {
        const Cell* const cells = tables_[table].load();
        if (cells && cells[topic.hash % cells_of[table]] != 0) return true;
    }
    const LevelCell* const levels = levels_.load();
    return levels && levels[topic.first_level()] != 0;
}

}  // namespace pulsegate
