#pragma once

#include <atomic>
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

/// Keeps a row store in step with the tables of a database in memory: what a transaction has
/// changed is written there before the transaction commits, as one change. What was written by a
/// transaction that is rolled back, because no answer came, is put back with the next one.
class Mirror {
public:
    /// `rows` must outlive it; the database must not.
    explicit Mirror(RowStore& rows) : rows_(rows) {}

    /// Fills the tables, which are empty, and follows their changes from now on. Throws
    /// std::runtime_error.
    void begin(Database& database);
    /// Before a transaction: what must be done outside of one. If it fails, the database has an
    /// error.
    void prepare();
    /// Before the transaction commits. If this fails, the database has an error.
    void write();
    void committed();
    void rolled_back();

    /// Once a second. False if something is wrong: `write` says what.
    bool look();
    /// All is written, and nothing will be any more: another node may go on.
    void leave() { rows_.leave(); }

    /// The rows belong to another node: nothing will ever be written any more.
    bool is_fenced() const { return is_fenced_; }
    /// From any thread: it takes only what was promised before, and deletions.
    bool is_full() const { return is_full_.load(std::memory_order_relaxed); }
    /// From any thread: why it is full.
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
    /// The store may have a later value than the tables: the tables' own.
    std::map<RowKey, std::optional<std::string>> unsure_;
    bool is_well_ = true;
    bool is_fenced_ = false;
    bool is_emptied_ = false;
    std::atomic<bool> is_full_{false};
    std::ptrdiff_t overfilled_ = 0;  ///< bytes, since the store is full
    mutable std::mutex mutex_;
    std::string why_full_;  ///< guarded by the mutex
};

}  // namespace pulsegate
