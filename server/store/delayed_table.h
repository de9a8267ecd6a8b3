#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/store/database.h"
#include "server/store/ledger.h"
#include "server/store/unit.h"

namespace pulsegate {

/// The messages that are published later. Their numbers sort by time, so the next ones are the
/// first rows of the table, and nothing of them is in memory but a sum for each user and what was
/// taken and is not dropped yet. `begin`, `finish` and `committed` are called for each transaction,
/// which may fail and be tried again. Nearly half of its members are prepared statements.
class DelayedTable {
public:
    explicit DelayedTable(Database& database);

    void begin();
    void put(const PutDelayed& put);
    void cancel(CancelDelayed& cancel);
    void drop(DropDelayed drop);
    std::vector<PutDelayed> take(std::int64_t before, std::size_t most);
    std::vector<PutDelayed> list(const std::optional<std::string>& user, std::uint64_t after,
                                 std::size_t most);
    /// Writes sums and the last number.
    void finish();
    void committed();

    /// For the first message of this process.
    std::uint32_t first_number() const { return first_number_; }

    // From any thread.

    std::int64_t next() const { return next_.load(std::memory_order_relaxed); }
    DelayedTotal total(const std::optional<std::string>& user) const;

private:
    struct Found {
        std::uint64_t id;
        std::string user;
        std::int64_t bytes;
    };
    struct Change {
        std::int64_t messages = 0;
        std::int64_t bytes = 0;
    };

    std::optional<Found> find(std::uint64_t id);
    std::optional<Found> find(const std::string& user, const std::string& name);
    void remove(const Found& found);
    bool is_taken(std::uint64_t id) const { return taken_.contains(id) || newly_.contains(id); }
    std::int64_t first_due();

    Database& database_;
    Statement put_;
    Statement find_;
    Statement find_name_;
    Statement remove_;
    Statement ids_;
    Statement due_;
    Statement list_;
    Statement list_user_;
    Statement put_sum_;
    Statement drop_sum_;
    Statement put_number_;

    boost::unordered_flat_set<std::uint64_t> taken_;
    std::uint32_t first_number_ = 1;

    // Of the transaction.
    boost::unordered_flat_set<std::uint64_t> newly_;  ///< taken
    std::vector<std::uint64_t> dropped_;
    boost::unordered_flat_map<std::string, Change> changes_;
    std::optional<std::uint32_t> last_number_;
    bool is_changed_ = false;
    std::int64_t first_due_ = 0;

    std::atomic<std::int64_t> next_;
    mutable std::mutex mutex_;  ///< of what follows
    boost::unordered_flat_map<std::string, DelayedTotal> sums_;
    DelayedTotal sum_;
};

}  // namespace pulsegate
