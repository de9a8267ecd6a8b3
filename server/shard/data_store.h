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

/// What the shard is told of a unit. The ledger has given back the operations.
UnitDone unit_done(Outcome outcome, std::vector<Operation>& given_back);

/// What the shard is told of messages that it has `asked` for.
MessagesRead messages_read(SessionId session, Outcome outcome, std::vector<Stamp> asked,
                           const std::vector<StoredMessage>& stored, Millis now);

/// What outlives the process, for all shards: the ledger, and how the brokers get back what it
/// holds. Any thread may use it after `restore`.
class DataStore {
public:
    struct Settings {
        std::string folder{};      ///< "": none, and nothing outlives the process
        RowStore* rows = nullptr;  ///< in place of a folder, if it is not null
        Fsync fsync = Fsync::always;
        std::size_t memory_budget = SIZE_MAX;  ///< of the process
        std::size_t max_bytes = 0;             ///< 0: four fifths of what the disk has for it
        std::uint32_t webhook_kinds = 0;       ///< a bit for each kind that the webhook wants
        std::size_t event_log_bytes = 0;       ///< 0: a quarter of the above, 256 MiB at most
        /// Is told, on a thread of the store, that nothing will be stored any more.
        std::function<void()> failed{};
    };

    /// Opens the store, and makes it if it is not there. Throws std::runtime_error with one line
    /// that says what to do.
    /// `lock` is the folder's, if another process has passed it on with `suspend`.
    explicit DataStore(const Settings& settings, UniqueFd lock = {});
    ~DataStore();

    /// Puts back all sessions, retained messages and users, and stores nothing. Before the shards
    /// run.
    KeptOut restore(const std::vector<Restore*>& shards);
    /// Does `begin` store what a process that has the data of before would miss?
    bool divides_rooms() const { return !restored_.divided.empty(); }
    /// Stores what `restore` has changed. Before the shards run. Throws std::runtime_error.
    void begin();

    /// Does it outlive the process? If not, it is for delayed messages only.
    bool is_kept() const { return is_kept_; }

    /// Should nothing grow that need not? From any thread.
    bool is_full() const { return bytes() > max_bytes_; }
    std::size_t bytes() const;
    std::size_t max_bytes() const { return max_bytes_; }
    /// Operations that the database never takes, since the start. From any thread.
    std::uint64_t left_out() const;

    /// Pages and rows that were found damaged since the start. From any thread.
    std::uint64_t damaged() const;
    /// What starts have found damaged or missing, until the operator has seen to it.
    const std::optional<StoreDamage>& damage() const;

    OwnerId next_owner() { return next_owner_.fetch_add(1, std::memory_order_relaxed); }

    /// Of 31 bits, for `delayed_id`.
    std::uint32_t next_delayed_number() {
        return next_delayed_.fetch_add(1, std::memory_order_relaxed) & 0x7fffffff;
    }
    Ledger& ledger();

    /// Copies all that is stored to a file. `answer` is called on a thread of the backup's, or at
    /// once if another one is under way.
    void back_up(BackupOrder order, BackupAnswer answer);

    /// Is there room for what was promised before only?
    bool takes_nothing_new() const;
    /// Does the disk take nothing?
    bool refuses() const;
    /// Why; "" if all is well.
    std::string trouble() const;
    /// The same, of something that was refused; it may have ended meanwhile.
    std::string why_refused() const;

    /// Closes the store in order for another process, which goes on with the lock that this
    /// returns; nothing: that failed, and the log says why. Until `resume`, nobody may use the
    /// store.
    UniqueFd suspend();
    /// The other process has not begun: opens the store again as it was. Throws
    /// std::runtime_error.
    void resume(UniqueFd lock);

    /// Has `told` called when there is a new event in the log; see Ledger.
    void watch_events(std::function<void()> told);

    /// Commits what was submitted, and ends. A backup that is under way is given up. False if
    /// something may be missing at the next start.
    bool close();

private:
    std::unique_ptr<SqliteLedger> open(UniqueFd lock) const;
    void set_room();

    const Settings settings_;
    const bool is_kept_;
    std::unique_ptr<SqliteLedger> ledger_;
    const std::size_t max_bytes_;
    Restored restored_{};  ///< until `begin`
    std::vector<std::function<void()>> watchers_;
    std::atomic<OwnerId> next_owner_{1};
    std::atomic<std::uint32_t> next_delayed_{1};
};

}  // namespace pulsegate
