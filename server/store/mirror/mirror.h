#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/cluster/row_store.h"
#include "server/store/database/database.h"
#include "server/store/mirror/change_collector.h"
#include "server/store/mirror/owner_partitions.h"

namespace pulsegate {

/// Keeps a row store consistent with the tables of a database in memory. The changes of a
/// transaction are written to the row store, as one change, before the transaction commits. If the
/// transaction is rolled back because no answer came, the next transaction restores these rows.
class Mirror {
public:
    /// `rows` must outlive it; the database must not.
    explicit Mirror(RowStore& rows) : rows_(rows) {}

    /// Fills the empty tables, and follows their changes from now on. Throws std::runtime_error.
    void begin(Database& database);
    /// Does the work that must be done outside a transaction. Call it before each transaction. If
    /// it fails, the database has an error.
    void prepare();
    /// Call it before the transaction commits. If it fails, the database has an error.
    void write();
    /// The same for changes without a transaction at a start, which are committed then. While there
    /// is no answer, it repeats the write, for this time. Throws std::runtime_error.
    void write_at_start(std::chrono::milliseconds patience);
    void committed();
    void rolled_back();

    /// Call it once a second. Returns false if something is wrong; `write` then reports it.
    bool look();
    /// Everything is written, and nothing more will be: another node may continue.
    void leave() { rows_.leave(); }

    /// The rows belong to another node: nothing more will be written.
    bool is_fenced() const { return is_fenced_; }
    /// The row store accepts only data that was promised before, and deletions. Any thread may call
    /// it.
    bool is_full() const { return is_full_.load(std::memory_order_relaxed); }
    /// Why it is full. Any thread may call it.
    std::string why_full() const;

private:
    std::vector<RowChange> pending() const;
    std::ptrdiff_t growth() const;
    RowStore::Result hand_over(const std::vector<RowChange>& changes);
    bool is_done(const RowStore::Result& result);
    void note(const RowStore::Result& result);
    void note_room();
    void note_full(const RowStore::Result& result);
    void keep_unsure();
    void rewrite_all();

    RowStore& rows_;
    Database* database_ = nullptr;
    OwnerPartitions owners_;
    std::unique_ptr<ChangeCollector> collector_;
    /// Rows that may have a later value in the store than in the tables, with the values of the
    /// tables.
    std::map<RowKey, std::optional<std::string>> unsure_;
    bool is_well_ = true;
    bool is_away_ = false;  ///< there was no answer to the last write
    bool is_fenced_ = false;
    bool is_emptied_ = false;
    std::atomic<bool> is_full_{false};
    std::ptrdiff_t overfilled_ = 0;  ///< bytes written since the store is full
    mutable std::mutex mutex_;
    std::string why_full_;  ///< guarded by the mutex
};

}  // namespace pulsegate
