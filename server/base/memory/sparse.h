#pragma once

#include <cstddef>

namespace pulsegate {

/// Frees memory of a hash table that has become nearly empty, because tables never shrink by
/// themselves. Call it now and then, but not while the table is visited. Each entry moves, so a
/// table with more than `most_moved` entries keeps its memory until fewer are left: moving more
/// would take too long in one round. A table with room for `small` entries keeps its memory, too.
template <class Table>
void shrink_if_sparse(Table& table, std::size_t most_moved = 100'000, std::size_t small = 1024) {
    const std::size_t room = table.bucket_count();
    if (room <= small || table.size() > most_moved || table.size() >= room / 8) return;
    table.rehash(table.size() * 2);
}

}  // namespace pulsegate
