#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/mirror/mirrored_row.h"

namespace pulsegate {

/// A mirrored table, and how to find the partition of a row.
struct MirroredTable {
    enum class Partitioning : std::uint8_t {
        everywhere,  ///< it concerns all nodes
        owner,       ///< it is the owner's own row; the column has the user
        of_owner,    ///< the column has the owner
        receivers,   ///< in the partition of each receiver, with the receivers of that partition;
                     ///< the column has all receivers
        name,        ///< the column has a user, or a topic
    };

    std::string name{};
    Partitioning partitioning = Partitioning::everywhere;
    int column = 0;
    int columns = 0;
    std::vector<int> key{};  ///< the columns of the primary key, in its order
};

/// The mirrored tables of a database with all tables of the newest version. Tables with sums of
/// other rows are not among them, see `make_sums`.
std::vector<MirroredTable> mirrored_tables(Database& database);

/// Visits all rows of a table, until the visitor returns false.
void each_row(Database& database, const MirroredTable& table,
              const std::function<bool(const RowValues&)>& visit);

/// Makes the rows that are sums of other rows.
void make_sums(Database& database);

}  // namespace pulsegate
