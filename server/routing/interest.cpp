#include "server/routing/interest.h"

#include <new>

#include "protocol/topic.h"
#include "server/base/hash.h"

namespace pulsegate {

namespace {

std::string_view first_level(std::string_view topic) { return topic.substr(0, topic.find('/')); }

/// Other bits for whole topics and for first levels, or every "a" would find "a/+".
std::size_t hash_topic(std::string_view topic) { return keyed_hash(topic); }
std::size_t hash_level(std::string_view topic) { return keyed_hash(first_level(topic)) >> 32; }

}  // namespace

Interest::Interest()
    : cells_(static_cast<std::uint32_t*>(std::calloc(cells, sizeof(std::uint32_t)))) {
    if (!cells_) throw std::bad_alloc();
}

std::uint32_t* Interest::cell(std::string_view filter) {
    if (!has_wildcard(filter)) return &cells_[hash_topic(filter) % cells];
    if (has_wildcard(first_level(filter))) return nullptr;
    return &cells_[hash_level(filter) % cells];
}

void Interest::add(std::string_view filter) {
    if (std::uint32_t* const found = cell(filter))
        ++std::atomic_ref(*found);
    else
        ++anything_;
}

void Interest::remove(std::string_view filter) {
    if (std::uint32_t* const found = cell(filter))
        --std::atomic_ref(*found);
    else
        --anything_;
}

Interest::Topic::Topic(std::string_view topic)
    : whole_(hash_topic(topic) % cells), first_level_(hash_level(topic) % cells) {}

bool Interest::wants(const Topic& topic) const {
    return anything_ != 0 || counted(topic.whole_) || counted(topic.first_level_);
}

}  // namespace pulsegate
