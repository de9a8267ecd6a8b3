#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/hash.h"
#include "server/store/database/database.h"
#include "server/store/ledger/delayed_sums.h"
#include "server/store/ledger/ledger.h"
#include "server/store/ledger/unit.h"
#include "server/store/tables/delayed_turns.h"

namespace pulsegate {

/// The messages that are published later. Their numbers sort by time, so a user's next messages are
/// the first rows of that user in the index. Memory only has a sum and a place in the order of
/// turns for each user, and the messages that were taken and not dropped yet. `begin`, `finish` and
/// `committed` are called for each transaction, which may fail and be tried again. Nearly half of
/// its members are prepared statements.
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

    /// The number for the first message of this process.
    std::uint32_t first_number() const { return first_number_; }

    // Any thread may call these.

    std::int64_t next() const { return next_.load(std::memory_order_relaxed); }
    DelayedTotal total(const std::optional<std::string>& user) const { return sums_->stored(user); }
    DelayedClaimRef claim(const std::string& user, const DelayedTotal& room,
                          const DelayedSums::Fits& fits) {
        return sums_->claim(user, room, fits);
    }

private:
    class Page;
    struct Found {
        std::uint64_t id;
        std::string user;
        std::int64_t bytes;
    };
    std::optional<Found> find(std::uint64_t id);
    std::optional<Found> find(const std::string& user, const std::string& name);
    void remove(const Found& found);
    void note_put(const PutDelayed& put, std::int64_t bytes);
    bool take_of(const std::string& user, std::uint64_t before, std::size_t most,
                 std::size_t most_bytes, Page& page);
    std::optional<std::uint64_t> first_of(const std::string& user);
    void restore_turns();
    bool is_taken(std::uint64_t id) const { return taken_.contains(id) || newly_.contains(id); }
    std::int64_t first_due();

    Database& database_;
    Statement put_;
    Statement find_;
    Statement find_name_;
    Statement remove_;
    Statement ids_;
    Statement due_;
    Statement ids_of_user_;
    Statement list_;
    Statement list_user_;
    Statement put_sum_;
    Statement drop_sum_;
    Statement put_number_;

    boost::unordered_flat_set<std::uint64_t> taken_;
    std::uint32_t first_number_ = 1;

    // State of the transaction.
    boost::unordered_flat_set<std::uint64_t> newly_;  ///< taken
    std::vector<std::uint64_t> dropped_;
    DelayedSums::Changes changes_;
    std::vector<DelayedClaimRef> claims_;
    boost::unordered_flat_map<std::string, std::uint64_t, TextHash>
        added_;  ///< the first of each user
    boost::unordered_flat_map<std::string, std::optional<std::uint64_t>, TextHash> firsts_;
    std::vector<std::string> served_;
    std::optional<std::uint32_t> last_number_;
    bool is_changed_ = false;
    std::int64_t first_due_ = 0;

    std::atomic<std::int64_t> next_;
    const std::shared_ptr<DelayedSums> sums_ = std::make_shared<DelayedSums>();
    DelayedTurns turns_;
};

}  // namespace pulsegate
