#pragma once

#include <sqlite3.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/hash.h"
#include "server/cluster/row_change.h"
#include "server/store/database/database.h"
#include "server/store/mirror/mirrored_table.h"
#include "server/store/mirror/owner_partitions.h"
#include "server/store/mirror/row_places.h"

namespace pulsegate {

/// Collects the rows that a transaction changes, and their earlier values, with SQLite's preupdate
/// hook (sqlite.org/c3ref/preupdate_blobwrite.html).
class ChangeCollector {
public:
    /// `owners` must outlive it, and the database must not.
    ChangeCollector(Database& database, OwnerPartitions& owners);
    ChangeCollector(const ChangeCollector&) = delete;
    ChangeCollector& operator=(const ChangeCollector&) = delete;

    const std::vector<MirroredTable>& tables() const { return tables_; }

    struct Change {
        std::optional<std::string> before{};
        std::optional<std::string> after{};
        bool is_unknown = false;  ///< it is unknown whether there was a row before

        bool is_change() const { return is_unknown || before != after; }
    };
    /// Hashes `RowKey`; there is one for each row and partition.
    struct KeyHash {
        using is_avalanching = void;
        std::size_t operator()(const RowKey& key) const {
            return keyed_hash(key.partition, key.field) ^ keyed_hash(key.table);
        }
    };
    using Changes = boost::unordered_flat_map<RowKey, Change, KeyHash>;
    /// The changes since `committed` or `rolled_back`.
    const Changes& changes() const { return changes_; }

    void committed();
    void rolled_back();

private:
    static void changed(void* self, sqlite3* handle, int operation, const char* database,
                        const char* table, sqlite3_int64 old_rowid, sqlite3_int64 new_rowid);
    void note(sqlite3* handle, int operation, const MirroredTable& table);
    void note_before(const MirroredTable& table, const RowValues& row);
    void note_after(const MirroredTable& table, const RowValues& row);

    OwnerPartitions& owners_;
    RowPlaces places_;
    const std::vector<MirroredTable> tables_;
    boost::unordered_flat_map<std::string_view, const MirroredTable*> by_name_;
    Changes changes_;
    std::vector<OwnerId> ended_;
    RowValues row_;
};

}  // namespace pulsegate
