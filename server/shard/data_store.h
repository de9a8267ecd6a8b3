#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"
#include "server/session/durable/own_messages.h"
#include "server/session/terms/session_id.h"
#include "server/shard/restoration.h"
#include "server/store/backup/backup_order.h"
#include "server/store/files/store_folder.h"
#include "server/store/ledger/fsync.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

class RowStore;
class SqliteLedger;

/// The result of a unit for its shard. The ledger has given back the operations.
UnitDone unit_done(Outcome outcome, std::vector<Operation>& given_back);

/// The result for a shard that has asked for messages.
MessagesRead messages_read(SessionId session, Outcome outcome, std::vector<Stamp> asked,
                           const std::vector<StoredMessage>& stored, Millis now);

/// The stored data of all shards: it owns the ledger, and restores the brokers from it. Any thread
/// may use it after `restore`.
class DataStore {
public:
    struct Settings {
        std::string folder{};      ///< "": nothing is kept on disk
        RowStore* rows = nullptr;  ///< replaces the folder if not null
        Fsync fsync = Fsync::always;
        std::size_t memory_budget = SIZE_MAX;  ///< the process's budget
        std::size_t max_bytes = 0;             ///< 0: four fifths of the room on the disk
        std::uint32_t webhook_kinds = 0;       ///< a bit for each kind that the webhook wants
        std::size_t event_log_bytes = 0;       ///< 0: a quarter of the above, 256 MiB at most
        std::size_t shards = 1;
        /// Called on a thread of the store when nothing can be stored any more.
        std::function<void()> failed{};
    };

    /// Opens the store, or creates it. Throws std::runtime_error with one line that names the
    /// remedy. `lock` is the folder's lock, if another process has passed it on with `suspend`.
    /// That process may call `resume` until `serve` is called here.
    explicit DataStore(const Settings& settings, UniqueFd lock = {});
    ~DataStore();

    /// Restores all sessions, retained messages and users, and stores nothing. Before the shards
    /// run.
    KeptOut restore(const std::vector<Restore*>& shards);
    /// True if `begin` stores changes that a process with the earlier data would miss.
    bool divides_rooms() const { return !restored_.divided.empty(); }
    /// Stores the changes of `restore`. Before the shards run. Throws std::runtime_error.
    void begin();
    /// No other process will continue with this data: from now on the limits apply to the log of
    /// events.
    void serve();

    /// True if the data outlives the process. Otherwise the store is for delayed messages only.
    bool is_kept() const { return is_kept_; }

    /// True if data that need not grow should not. From any thread.
    bool is_full() const { return bytes() > max_bytes_; }
    std::size_t bytes() const;
    std::size_t max_bytes() const { return max_bytes_; }
    /// Bytes that its disk has left; nothing if it has none, or if that can't be told.
    std::optional<std::uintmax_t> free_disk() const;
    /// Operations that the database has refused for good, since the start. From any thread.
    std::uint64_t left_out() const;

    /// Pages and rows that were found damaged since the start. From any thread.
    std::uint64_t damaged() const;
    /// The damage that starts have found, until the operator has dealt with it.
    const std::optional<StoreDamage>& damage() const;

    /// The numbers of new owners.
    OwnerNumbers& owners() { return owners_; }

    /// A number of 31 bits, for `delayed_id`.
    std::uint32_t next_delayed_number() {
        return next_delayed_.fetch_add(1, std::memory_order_relaxed) & 0x7fffffff;
    }
    Ledger& ledger();

    /// Copies all stored data to a file. `answer` is called on the backup's thread, or at once if
    /// another backup is under way.
    void back_up(BackupOrder order, BackupAnswer answer);

    /// True if there is room only for promises made before.
    bool takes_nothing_new() const;
    /// True if the disk takes nothing.
    bool refuses() const;
    /// The reason; "" if all is well.
    std::string trouble() const;
    /// The reason for a refusal; the trouble may have ended meanwhile.
    std::string why_refused() const;

    /// Closes the store in good order, and returns its lock for another process; an empty one if
    /// that failed, and the log says why. Nobody may use the store until `resume`.
    UniqueFd suspend();
    /// Opens the store again as it was, because the other process has not begun. Throws
    /// std::runtime_error.
    void resume(UniqueFd lock);

    /// Calls `told` when there is a new event in the log; see Ledger.
    void watch_events(std::function<void()> told);

    /// Commits what was submitted, and closes the store. Cancels a backup under way. Returns false
    /// if something may be missing at the next start.
    bool close();

private:
    std::unique_ptr<SqliteLedger> open(UniqueFd lock) const;
    void set_room();

    const Settings settings_;
    const bool is_kept_;
    std::unique_ptr<SqliteLedger> ledger_;
    const std::size_t max_bytes_;
    Restored restored_{};  ///< empty after `begin`
    std::vector<std::function<void()>> watchers_;
    OwnerNumbers owners_;
    std::atomic<std::uint32_t> next_delayed_{1};
};

}  // namespace pulsegate
