#include "server/session/users/user_names.h"

#include "server/base/memory/sparse.h"
#include "server/session/users/presence_entry.h"

namespace pulsegate {

std::size_t UserNames::Hash::operator()(const PresenceEntry* entry) const {
    return keyed_hash(entry->user_name());
}

bool UserNames::Equal::operator()(const HashedText& name, const PresenceEntry* entry) const {
    return entry->user_name() == name.text;
}

PresenceEntry* UserNames::find(std::string_view name) const {
    const HashedText hashed(name);
    const SmallTable& table = tables_[table_of(hashed.hash)];
    const auto found = table.find(hashed);
    return found == table.end() ? nullptr : *found;
}

void UserNames::insert(PresenceEntry& entry) {
    tables_[table_of(Hash()(&entry))].insert(&entry);
    ++size_;
}

void UserNames::erase(const PresenceEntry& entry) {
    size_ -= tables_[table_of(Hash()(&entry))].erase(const_cast<PresenceEntry*>(&entry));
}

void UserNames::replace(const PresenceEntry& old, PresenceEntry& replacement) {
    SmallTable& table = tables_[table_of(Hash()(&old))];
    const auto place = table.find(const_cast<PresenceEntry*>(&old));
    // The replacement has the same name, and therefore the same place in the table.
    const_cast<PresenceEntry*&>(*place) = &replacement;
}

void UserNames::reserve(std::size_t users) {
    for (SmallTable& table : tables_) table.reserve(users / tables);
}

/// Each call looks at a sixteenth of the tables, because moving an entry hashes its name.
void UserNames::shrink() {
    constexpr std::size_t most_moved = 100'000;
    constexpr std::size_t small = 64;
    for (std::size_t i = 0; i < tables / 16; ++i) {
        shrink_if_sparse(tables_[next_], most_moved, small);
        next_ = (next_ + 1) % tables;
    }
}

}  // namespace pulsegate
