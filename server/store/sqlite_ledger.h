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
#include "server/store/tables/waiting_index.h"

namespace pulsegate {

/// The ledger in a folder, or in memory: one SQLite database and one thread, which is the only one
/// that uses it. What arrives while a commit runs is the next commit. README.md says what is
/// promised. It joins the parts of the store, and has what the thread knows of a disk that fails:
/// hence so many members.
class SqliteLedger : public Ledger {
public:
    struct Options {
        std::string folder{};  ///< "": in memory, until the process ends
        Fsync fsync = Fsync::always;
        /// How long the disk may fail before everything is refused.
        std::chrono::milliseconds patience{10'000};
        /// Between two attempts; each pause is twice as long as the one before, up to 5 s.
        std::chrono::milliseconds first_pause{100};
        /// The WAL is copied into the database when it is larger.
        std::size_t wal_bytes = 4 * 1024 * 1024;
        std::size_t cache_bytes = 64 * 1024 * 1024;  ///< of pages, when all is loaded
        EventLogSettings events{};
        /// Is told, on the ledger's thread, that nothing will be stored any more.
        std::function<void()> failed{};
        const char* vfs = nullptr;  ///< SQLite's usual one
        /// Then the database is in memory, and all of it is kept there. Null: there is none.
        RowStore* rows = nullptr;
    };

    /// Opens the store, and makes it if it is not there. Throws std::runtime_error with one line
    /// that says what to do.
    /// `lock` is the folder's, if this process shares it already; see FolderLock.
    explicit SqliteLedger(Options options, UniqueFd lock = {});

    /// Commits what was submitted before.
    ~SqliteLedger() override;

    /// The folder's lock, see FolderLock; empty if there is no folder.
    UniqueFd share_lock() const { return lock_ ? lock_->share() : UniqueFd(); }

    /// How many bytes all that is stored may take, and the log of events of these. Before `load`.
    void set_room(std::size_t all, std::size_t events);

    /// Commits what was submitted before, and ends. False if something may be missing at the next
    /// start; the log says what.
    bool close();

    Start load(Visitor& visitor) override;
    void submit(Unit unit) override;
    void submit_lazily(Unit unit) override;
    void find_owner(OwnerKind kind, std::string user, std::string client,
                    OwnerAnswer answer) override;
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
    std::size_t bytes() const override { return commits_.file_size().used(); }
    /// Operations that the database never takes, since the start.
    std::uint64_t left_out() const { return commits_.left_out(); }
    /// Pages and rows that were found damaged since the start.
    std::uint64_t damaged() const { return database_.damage(); }
    /// What starts have found damaged or missing.
    const std::optional<StoreDamage>& damage() const { return store_.damage; }
    bool refusing() const override { return refusing_.load(std::memory_order_relaxed) || full(); }
    bool full() const override { return mirror_ && mirror_->is_full(); }
    /// Why nothing is stored; "" if all is well. From any thread.
    std::string trouble() const;
    /// Where all is stored, for people.
    const char* place() const { return mirror_ ? "Redis" : "the disk"; }

    /// Copies the database to a file. The copy has all that was committed before this, and opens as
    /// a store under the name of pulsegate.db. `answer` is called on a thread of the backup's, or
    /// at once if another one is under way.
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
    std::optional<std::size_t> commit_again(std::size_t count);
    bool await_files(const StoreFiles::Trouble& found);
    void make_room();
    void note_failure();
    bool pause(Clock::duration time, Clock::time_point patience_ends);
    void begin_refusing();
    void note_trouble(const std::string& why);
    void give_up(const std::string& why);
    void refuse_all();
    void answer(std::size_t count);
    void keep_wal_short();
    void keep_wal_synced();
    bool renew_wal();
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
    GroupCommit commits_;
    RequestQueue queue_;
    std::deque<Request> taken_;  ///< of the queue, and not answered yet
    std::size_t room_ = std::numeric_limits<std::size_t>::max();
    std::atomic<bool> refusing_{false};
    bool has_failed_ = false;   ///< for good
    bool has_refused_ = false;  ///< what was submitted last
    bool in_order_ = false;     ///< closed
    mutable std::mutex mutex_;
    std::string trouble_;                             ///< guarded by the mutex
    std::map<std::uint32_t, std::uint32_t> refused_;  ///< by source, the generation of the last one
    unsigned sync_failures_ = 0;                      ///< since a commit has succeeded
    bool unsynced_ = false;  ///< Fsync::each_second: there were commits since the last sync
    Clock::time_point next_sync_{};
    Clock::time_point next_checkpoint_{};
    Clock::time_point next_look_{};  ///< at the mirror
    Backup backup_;
    std::thread thread_;
};

}  // namespace pulsegate
