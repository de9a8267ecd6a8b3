#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/mirror/mirrored_row.h"

namespace pulsegate {

/// A mirrored table, and what says in which partition a row lies.
struct MirroredTable {
    enum class Place : std::uint8_t {
        everywhere,  ///< it concerns all nodes
        owner,       ///< it is the owner's own row; the column has the user
        of_owner,    ///< the column has the owner
        receivers,   ///< in that of each receiver, with those receivers; the column has them all
        name,        ///< the column has a user, or a topic
    };

    std::string name{};
    Place place = Place::everywhere;
    int column = 0;
    int columns = 0;
    std::vector<int> key{};  ///< the columns of the primary key, in its order
};

/// Those of a database that has all tables of the newest version. A sum of other rows is not among
/// them, see `make_sums`.
std::vector<MirroredTable> mirrored_tables(Database& database);

/// Visits all rows of a table, until the visitor returns false.
void each_row(Database& database, const MirroredTable& table,
              const std::function<bool(const RowValues&)>& visit);

/// Makes the rows that are sums of others.
void make_sums(Database& database);

}  // namespace pulsegate
