#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/store/backup/backup.h"
#include "server/store/files/folder_lock.h"
#include "server/store/files/store_files.h"
#include "server/store/group_commit.h"
#include "server/store/ledger/ledger.h"
#include "server/store/mirror/mirror.h"
#include "server/store/request_queue.h"
#include "server/store/start/opening.h"
#include "server/store/tables/delayed_table.h"
#include "server/store/tables/event_table.h"
#include "server/store/tables/recent_drops.h"
#include "server/store/tables/waiting_index.h"

namespace pulsegate {

/// The ledger in a folder or in memory: one SQLite database, and one thread, which alone uses it.
/// Requests that arrive during a commit form the next commit. README.md says what is promised. It
/// joins the parts of the store, and has the thread's state about a failing disk.
class SqliteLedger : public Ledger {
public:
    struct Options {
        std::string folder{};  ///< "": in memory, until the process ends
        Fsync fsync = Fsync::always;
        /// The time for which the disk may fail before everything is refused.
        std::chrono::milliseconds patience{10'000};
        /// The first pause between two attempts. Each pause is twice as long as the one before, up
        /// to 5 s.
        std::chrono::milliseconds first_pause{100};
        /// A transaction takes no more requests after this time.
        std::chrono::milliseconds longest_transaction{5};
        /// How long a stop goes on trying if the disk fails just then.
        std::chrono::milliseconds stop_patience{2'000};
        /// The WAL is copied into the database when it is larger than this.
        std::size_t wal_bytes = 4 * 1024 * 1024;
        std::size_t cache_bytes = 64 * 1024 * 1024;  ///< cache of pages, after the load
        EventLogSettings events{};
        std::size_t sources = 0;  ///< of units, see RecentDrops
        /// Called on the ledger's thread when nothing more will be stored.
        std::function<void()> failed{};
        const char* vfs = nullptr;  ///< SQLite's usual one
        /// This process, or the one that it takes over from, has closed the store in order a moment
        /// ago. So it is not checked, even if a process that was killed has opened it since.
        bool was_closed = false;
        /// With a row store, the database is in memory, and the row store keeps all rows. Null:
        /// there is none.
        RowStore* rows = nullptr;
    };

    /// Opens the store, or creates it. Throws std::runtime_error with one line that says what to
    /// do. `lock` is the folder's lock, if this process shares it already; see FolderLock.
    explicit SqliteLedger(Options options, UniqueFd lock = {});

    /// Commits all submitted units.
    ~SqliteLedger() override;

    /// The folder's lock, see FolderLock; empty if there is no folder.
    UniqueFd share_lock() const { return lock_ ? lock_->share() : UniqueFd(); }

    /// Sets the maximum bytes of all stored data, and of the log of events as a part of them. Call
    /// it before `load`.
    void set_room(std::size_t all, std::size_t events);

    /// While this is set, no event is deleted, whatever the room: another process may continue with
    /// the data. Any thread.
    void keep_all_events(bool keeps_all) { events_.keep_all(keeps_all); }

    /// Commits all submitted units, and ends. Returns false if data may be missing at the next
    /// start; the log has the reason.
    bool close();

    Start load(Visitor& visitor) override;
    void submit(Unit unit) override;
    void submit_lazily(Unit unit) override;
    void read_messages(std::vector<Stamp> stamps, MessagesAnswer answer) override;
    void take_delayed(std::int64_t before, std::size_t most, DelayedAnswer answer) override;
    void list_delayed(std::optional<std::string> user, std::uint64_t after, std::size_t most,
                      DelayedAnswer answer) override;
    void read_events(EventNumber after, std::uint32_t kinds, std::size_t most,
                     EventsAnswer answer) override;
    void list_dead_letters(EventNumber after, bool to_replay, std::size_t most,
                           DeadLettersAnswer answer) override;
    void watch_events(std::function<void()> told) override { events_.watch(std::move(told)); }
    EventLogState events() const override { return events_.state(); }
    std::int64_t next_delayed() const override { return delayed_.next(); }
    DelayedTotal delayed_total(const std::optional<std::string>& user) const override {
        return delayed_.total(user);
    }
    DelayedClaimRef claim_delayed(const std::string& user, const DelayedTotal& room,
                                  const DelayedSums::Fits& fits) override {
        return delayed_.claim(user, room, fits);
    }
    bool awaits_units() const override { return drops_.awaits_units(); }
    std::size_t bytes() const override { return commits_.file_size().used(); }
    /// The number of operations that the database has rejected since the start.
    std::uint64_t left_out() const { return commits_.left_out(); }
    /// The number of pages and rows that were found damaged since the start.
    std::uint64_t damaged() const { return database_.damage(); }
    /// The damaged or missing data that starts have found.
    const std::optional<StoreDamage>& damage() const { return store_.damage; }
    bool refusing() const override { return refusing_.load(std::memory_order_relaxed) || full(); }
    bool full() const override { return mirror_ && mirror_->is_full(); }
    /// Why nothing is stored; "" if the store works. Any thread may call it.
    std::string trouble() const;
    /// The name of the place where data is stored, for people.
    const char* place() const { return mirror_ ? "Redis" : "the disk"; }

    /// Copies the database to a file. The copy has everything that was committed before this. Named
    /// pulsegate.db, it can be opened as a store. `answer` is called on the backup's thread, or at
    /// once if another backup is under way.
    void back_up(BackupOrder order, BackupAnswer answer);

private:
    using Clock = RequestQueue::Clock;

    void run();
    void take();
    bool comes_late(const Unit& unit) const;
    void idle();
    Clock::duration idle_time() const;
    void look_after_files();
    void look_after_mirror();
    bool is_lost() const;
    void commit_some();
    std::size_t commit(std::optional<std::size_t> count);
    std::optional<std::size_t> commit_again(std::size_t count, Clock::time_point patience_ends);
    bool await_files(const StoreFiles::Trouble& found);
    void make_room();
    void note_failure();
    bool pause(Clock::duration time, Clock::time_point patience_ends);
    bool pause_at_stop();
    void begin_refusing();
    void end_refusing();
    void note_trouble(const std::string& why);
    void give_up(const std::string& why);
    void refuse_all();
    void answer(std::size_t count);
    void keep_wal_short();
    void keep_wal_synced();
    bool renew_wal(Clock::time_point patience_ends);
    void checkpoint(int mode);
    bool close_in_order();

    const Options options_;
    std::optional<FolderLock> lock_;
    const std::unique_ptr<Mirror> mirror_;  ///< null: there is none
    OpenStore store_;
    StoreFiles files_;
    Database& database_;
    WaitingIndex index_;
    DelayedTable delayed_;
    EventTable events_;
    RecentDrops drops_;
    GroupCommit commits_;
    RequestQueue queue_;
    std::deque<Request> taken_;  ///< requests from the queue that are not answered yet
    std::size_t committed_ = 0;  ///< how many of these are committed
    std::size_t room_ = std::numeric_limits<std::size_t>::max();
    std::atomic<bool> refusing_{false};
    bool has_failed_ = false;   ///< permanently
    bool has_refused_ = false;  ///< the latest units
    bool in_order_ = false;     ///< it was closed
    mutable std::mutex mutex_;
    std::string trouble_;                             ///< guarded by the mutex
    std::map<std::uint32_t, std::uint32_t> refused_;  ///< the generation of the last refused unit,
                                                      ///< by source
    unsigned sync_failures_ = 0;                      ///< since the last successful commit
    bool unsynced_ = false;  ///< Fsync::each_second: there were commits since the last sync
    std::optional<Clock::time_point> stop_patience_ends_{};
    Clock::time_point next_sync_{};
    Clock::time_point next_checkpoint_{};
    Clock::time_point next_look_{};  ///< when to look at the mirror next
    Backup backup_;
    std::thread thread_;
};

}  // namespace pulsegate
