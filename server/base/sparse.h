#pragma once

#include <cstddef>

namespace pulsegate {

/// Gives back the memory of a hash table that has become nearly empty: after a crowd has gone, it
/// would stay as large as it was. To be called from time to time, not while the table is visited.
/// Each entry moves, so a table with more than `most_moved` keeps its room until fewer are left: to
/// move them would take too long in one turn.
template <class Table>
void shrink_if_sparse(Table& table, std::size_t most_moved = 100'000) {
    constexpr std::size_t small = 1024;  // entries
    const std::size_t room = table.bucket_count();
    if (room <= small || table.size() > most_moved || table.size() >= room / 8) return;
    table.rehash(table.size() * 2);
}

}  // namespace pulsegate
