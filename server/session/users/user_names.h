#pragma once

#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/base/hash.h"

namespace pulsegate {

struct PresenceEntry;

/// The entries of users by name. It owns no entry.
///
/// It has many small tables. A table that grows hashes all its names again, in one round: 70 ms, if
/// there are 60,000 names of 1,000 bytes.
class UserNames {
public:
    /// The entry of the user with that name, or null.
    PresenceEntry* find(std::string_view name) const;

    /// There must be no entry with the same name.
    void insert(PresenceEntry& entry);
    void erase(const PresenceEntry& entry);
    /// Both have the same name.
    void replace(const PresenceEntry& old, PresenceEntry& replacement);

    std::size_t size() const { return size_; }
    void reserve(std::size_t users);
    /// Frees memory that it does not need. Call it once a second.
    void shrink();

private:
    struct Hash {
        using is_transparent = void;
        using is_avalanching = void;
        std::size_t operator()(const HashedText& name) const { return name.hash; }
        std::size_t operator()(const PresenceEntry* entry) const;
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const PresenceEntry* a, const PresenceEntry* b) const { return a == b; }
        bool operator()(const HashedText& name, const PresenceEntry* entry) const;
        bool operator()(const PresenceEntry* entry, const HashedText& name) const {
            return (*this)(name, entry);
        }
    };
    using SmallTable = boost::unordered_flat_set<PresenceEntry*, Hash, Equal>;

    /// A table takes the places of its entries from the first and the last bits of a hash.
    static std::size_t table_of(std::uint64_t hash) { return (hash >> 16) % tables; }

    static constexpr std::size_t tables = 256;
    std::array<SmallTable, tables> tables_;
    std::size_t size_ = 0;
    std::size_t next_ = 0;  ///< table to shrink
};

}  // namespace pulsegate
