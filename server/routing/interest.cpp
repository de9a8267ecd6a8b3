#include "server/routing/interest.h"

#include "protocol/topic.h"
#include "server/base/hash.h"

namespace pulsegate {

namespace {

constexpr std::uint16_t top = 65'535;

std::string_view first_level(std::string_view topic) { return topic.substr(0, topic.find('/')); }

/// Other bits for whole topics and for first levels, or every "a" would find "a/+".
std::size_t hash_topic(std::string_view topic) { return keyed_hash(topic); }
std::size_t hash_level(std::string_view topic) { return keyed_hash(first_level(topic)) >> 32; }

}  // namespace

Interest::Interest() : cells_(std::make_unique<Cell[]>(cells)) {}

/// The cell of a filter; null for one that begins with a wildcard.
Interest::Cell* Interest::cell(std::string_view filter) {
    if (!has_wildcard(filter)) return &cells_[hash_topic(filter) % cells];
    if (has_wildcard(first_level(filter))) return nullptr;
    return &cells_[hash_level(filter) % cells];
}

void Interest::add(std::string_view filter) {
    if (Cell* const counted = cell(filter))
        change(*counted, 1);
    else
        ++anything_;
}

void Interest::remove(std::string_view filter) {
    if (Cell* const counted = cell(filter))
        change(*counted, -1);
    else
        --anything_;
}

void Interest::change(Cell& cell, int by) {
    std::uint16_t count = cell.load();
    while (count != top &&
           !cell.compare_exchange_weak(count, static_cast<std::uint16_t>(count + by))) {
    }
}

Interest::Topic::Topic(std::string_view topic)
    : whole_(hash_topic(topic) % cells), first_level_(hash_level(topic) % cells) {}

bool Interest::wants(const Topic& topic) const {
    return anything_ != 0 || cells_[topic.whole_] != 0 || cells_[topic.first_level_] != 0;
}

}  // namespace pulsegate
