#pragma once

#include <cstddef>

namespace pulsegate::load {

/// Does a table have a row for each value of an enumeration, in the order of the values? `id` of a
/// row is its value.
template <class Rows>
constexpr bool in_order(const Rows& rows) {
    for (std::size_t at = 0; at < rows.size(); ++at)
        if (static_cast<std::size_t>(rows[at].id) != at) return false;
    return true;
}

}  // namespace pulsegate::load
