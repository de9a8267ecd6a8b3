#include "server/store/sqlite_ledger.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "server/base/machine.h"
#include "server/message/stored_floor.h"
#include "server/store/tables/store_reader.h"

namespace pulsegate {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::steady_clock::duration longest_pause = 5s;
/// How often the mirror is checked, also while nothing is written.
constexpr std::chrono::steady_clock::duration look_again = 1s;
/// How often a waiting ledger checks whether its patience has ended, and refuses new requests.
constexpr std::chrono::steady_clock::duration look_around = 100ms;
constexpr std::size_t page_size = 4096;
/// After this many failed syncs, pages that were written to the WAL before are no longer trusted.
constexpr unsigned suspect_after = 3;
/// The pause of a backup that is too far ahead of the disk.
constexpr std::chrono::steady_clock::duration backup_pause = 5ms;

std::optional<FolderLock> lock_folder(const std::string& folder, UniqueFd shared) {
    if (folder.empty()) return std::nullopt;
    if (shared) return FolderLock(folder, std::move(shared));
    return FolderLock(folder);
}

/// The unit is stored, although it must be refused. Most of its promised operations would be
/// submitted again, and so be stored twice.
void clear_promises(Unit& unit) {
    for (Operation& operation : unit.operations) {
        if (auto* const event = std::get_if<PutEvent>(&operation)) event->is_promised = false;
        if (auto* const put = std::get_if<PutDelayed>(&operation)) put->is_promised = false;
        // If it is submitted again, this cancellation may delete a message that the unit has
        // stored.
        if (auto* const cancel = std::get_if<CancelDelayed>(&operation))
            cancel->is_promised = false;
    }
}

}  // namespace

SqliteLedger::SqliteLedger(Options options, UniqueFd lock)
    : options_(std::move(options)),
      lock_(lock_folder(options_.folder, std::move(lock))),
      mirror_(options_.rows ? std::make_unique<Mirror>(*options_.rows) : nullptr),
      store_(mirror_
                 ? open_mirrored(*mirror_, options_.patience)
                 : open_store(options_.folder, options_.fsync, options_.vfs, options_.was_closed)),
      files_(options_.folder.empty() || options_.vfs ? StoreFiles() : StoreFiles(options_.folder)),
      database_(*store_.database),
      delayed_(database_),
      events_(database_, options_.events),
      drops_(options_.sources),
      commits_(database_, index_, delayed_, events_, drops_, mirror_.get(),
               {.floor = store_.new_floor, .longest_transaction = options_.longest_transaction}),
      backup_(database_, options_.folder, [this] {
          submit(
              {{}, [this](Outcome outcome, auto&) { backup_.begin(outcome == Outcome::refused); }});
      }) {
    commits_.begin_wal(store_.mark.next_wal());
    if (!mirror_) return;
    // Else a first transaction without an answer would delete the first rows of the log of events.
    mirror_->write_at_start(options_.patience);
}

SqliteLedger::~SqliteLedger() {
    close();
    set_stored_floor(no_stored_floor);
}

void SqliteLedger::set_room(std::size_t all, std::size_t events) {
    room_ = all;
    events_.set_max_bytes(events);
}

bool SqliteLedger::close() {
    queue_.stop();
    if (!thread_.joinable()) return in_order_;
    thread_.join();
    return in_order_;
}

std::string SqliteLedger::trouble() const {
    if (!refusing()) return "";
    if (!refusing_) return mirror_->why_full();
    const std::lock_guard lock(mutex_);
    return trouble_;
}

Ledger::Start SqliteLedger::load(Visitor& visitor) {
    // A node that loads for longer than its lease must send heartbeats meanwhile.
    const OwnerRange owners = load_all(database_, index_, visitor, [this] {
        if (mirror_) mirror_->look();
    });
    enlarge_cache(database_, options_.cache_bytes);
    if (!database_.ok())
        throw std::runtime_error(
            fmt::format("can't read the data in {}: {}; the next start checks all of it and "
                        "continues with the readable part",
                        options_.folder, database_.error_text()));
    thread_ = std::thread([this] {
        name_thread("store");
        run();
    });
    return {.floor = store_.floor,
            .version_floor = store_.version_floor,
            .owners = owners,
            .next_delayed = delayed_.first_number(),
            .key = store_.key};
}

void SqliteLedger::submit(Unit unit) { queue_.add({.what = std::move(unit)}); }

void SqliteLedger::submit_lazily(Unit unit) { queue_.add_lazily({.what = std::move(unit)}); }

void SqliteLedger::read_messages(std::vector<Stamp> stamps, MessagesAnswer answer) {
    queue_.add({.what = Request::ReadMessages{std::move(stamps), std::move(answer)}});
}

void SqliteLedger::take_delayed(std::int64_t before, std::size_t most, DelayedAnswer answer) {
    queue_.add({.what = Request::TakeDelayed{before, most, std::move(answer)}});
}

void SqliteLedger::list_delayed(std::optional<std::string> user, std::uint64_t after,
                                std::size_t most, DelayedAnswer answer) {
    queue_.add({.what = Request::ListDelayed{std::move(user), after, most, std::move(answer)}});
}

void SqliteLedger::read_events(EventNumber after, std::uint32_t kinds, std::size_t most,
                               EventsAnswer answer) {
    queue_.add({.what = Request::ReadEvents{after, kinds, most, std::move(answer)}});
}

void SqliteLedger::list_dead_letters(EventNumber after, bool to_replay, std::size_t most,
                                     DeadLettersAnswer answer) {
    queue_.add({.what = Request::ListDeadLetters{after, to_replay, most, std::move(answer)}});
}

void SqliteLedger::back_up(BackupOrder order, BackupAnswer answer) {
    backup_.start(std::move(order), std::move(answer));
}

// The following functions run on the ledger's thread.

void SqliteLedger::run() {
    for (bool stopping = false; !stopping || !taken_.empty();) {
        if (taken_.empty()) idle();
        stopping = queue_.stopped();
        take();
        look_after_files();
        look_after_mirror();
        if (bytes() > room_ / 16 * 15) events_.halve();  // before sessions have to end
        if (has_failed_) {
            refuse_all();
            continue;
        }
        if (!taken_.empty() || commits_.has_work()) commit_some();
        backup_.step();
        keep_wal_short();
        keep_wal_synced();
    }
    backup_.stop();
    in_order_ = close_in_order();
}

void SqliteLedger::take() {
    const std::size_t known = taken_.size();
    queue_.take(taken_);
    for (std::size_t i = known; i < taken_.size(); ++i) {
        const auto* unit = std::get_if<Unit>(&taken_[i].what);
        if (unit && comes_late(*unit)) taken_[i].outcome = Outcome::refused;
    }
}

/// True if the unit's source does not know yet that an earlier unit of it was refused.
bool SqliteLedger::comes_late(const Unit& unit) const {
    const auto found = refused_.find(unit.source);
    return found != refused_.end() && unit.generation <= found->second;
}

/// Waits for requests; a backup goes on meanwhile.
void SqliteLedger::idle() {
    const auto until = Clock::now() + idle_time();
    while (backup_.is_copying() && Clock::now() < until) {
        const auto pause = backup_.step() ? Clock::duration::zero() : backup_pause;
        if (queue_.wait(Clock::now() + pause)) return;
    }
    queue_.wait(until);
}

SqliteLedger::Clock::duration SqliteLedger::idle_time() const {
    if (has_failed_) return 10s;
    return commits_.is_behind() ? 0s : 1s;
}

/// Runs each second and before each commit. A folder that was moved may come back.
void SqliteLedger::look_after_files() {
    if (has_failed_) return;
    const auto& [cut, moved] = files_.look();
    if (!cut.empty()) return give_up(cut);
    if (!moved.empty() && taken_.empty()) commit_some();  // this waits for the folder
}

/// Once a second: asks a full or failing store again, and deletes events to make room.
void SqliteLedger::look_after_mirror() {
    if (!mirror_ || has_failed_ || Clock::now() < next_look_) return;
    next_look_ = Clock::now() + look_again;
    const bool is_well = mirror_->look();
    if (mirror_->is_full()) events_.halve();
    if (taken_.empty() && (!is_well || mirror_->is_full())) commit_some();
}

/// True if nothing can be stored here any more.
bool SqliteLedger::is_lost() const {
    return database_.damaged() || (mirror_ && mirror_->is_fenced());
}

void SqliteLedger::commit_some() {
    std::optional<std::size_t> count = commit(std::nullopt);
    const bool was_easy = database_.ok();
    const auto patience_ends = Clock::now() + options_.patience;
    if (!was_easy) count = commit_again(*count, patience_ends);
    if (!count) return refuse_all();
    committed_ = *count;
    if (sync_failures_ >= suspect_after && !renew_wal(patience_ends)) return refuse_all();
    // All files were checked just before the first attempt, and this attempt wrote only to the WAL.
    if (!await_files(was_easy ? files_.look_at_wal() : files_.look())) return refuse_all();
    sync_failures_ = 0;
    has_refused_ = false;
    store_.mark.committed(static_cast<std::size_t>(database_.wal_pages()));
    end_refusing();
    unsynced_ = true;
    answer(std::exchange(committed_, 0));
}

/// Expects that the files were checked just before.
std::size_t SqliteLedger::commit(std::optional<std::size_t> count) {
    if (const std::string& moved = files_.trouble().moved; !moved.empty()) {
        database_.fail(SQLITE_READONLY_DBMOVED, moved);
        return count.value_or(0);
    }
    return commits_.commit(taken_, count);
}

/// The last commit has failed and is rolled back. The same requests are tried again on the same
/// connection, which writes the same pages of the WAL again. So a successful sync covers these
/// pages. A new connection would treat pages that are only in the page cache as committed. Returns
/// nothing if the ledger ends first, or can never store again.
std::optional<std::size_t> SqliteLedger::commit_again(std::size_t count,
                                                      Clock::time_point patience_ends) {
    // Do not wait for a folder that was moved: refuse at once, and try again.
    if (database_.error() == SQLITE_READONLY_DBMOVED) patience_ends = Clock::now();
    if (!is_lost()) spdlog::error("{} fails: {}; trying again", place(), database_.error_text());
    for (Clock::duration time = options_.first_pause; !database_.ok();
         time = std::min<Clock::duration>(2 * time, mirror_ ? look_again : longest_pause)) {
        if (is_lost()) {
            give_up(database_.error_text());
            return std::nullopt;
        }
        const bool is_full = (database_.error() & 0xff) == SQLITE_FULL;
        note_failure();
        if (is_full) make_room();
        if (!pause(time, patience_ends)) return std::nullopt;
        if (refusing_) {
            count = 0;
            commits_.write_floor();
        }
        files_.look();
        count = commit(count);
    }
    return count;
}

/// The latest commit may have gone to a file that was moved meanwhile. So nobody is told of it
/// before the file is back. Returns false if the ledger ends or gives up first.
bool SqliteLedger::await_files(const StoreFiles::Trouble& found) {
    if (!found.cut.empty()) {
        give_up(found.cut);
        return false;
    }
    std::string moved = found.moved;
    if (moved.empty()) return true;
    spdlog::error("the disk fails: {}; waiting for it", moved);
    note_trouble(moved);
    refusing_ = true;
    const auto patience_ends = Clock::now() + options_.patience;
    for (; !moved.empty(); moved = files_.look().moved) {
        if (Clock::now() >= patience_ends) {
            give_up(moved);
            return false;
        }
        if (!queue_.sleep(look_around)) return false;
    }
    return true;
}

/// Deletes events in steps to make room for messages, because each step itself needs room in the
/// WAL.
void SqliteLedger::make_room() {
    while (database_.ok() && events_.halve()) {
        const EventNumber first = events_.state().first;
        checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
        commits_.commit(taken_, 0);
        if (!events_.is_to_trim() || events_.state().first == first) break;
    }
    database_.clear_error();
}

void SqliteLedger::note_failure() {
    spdlog::debug("commit failed: {} ({})", database_.error_text(), database_.error());
    note_trouble(database_.error_text());
    if (database_.error() == SQLITE_IOERR_FSYNC || database_.error() == SQLITE_IOERR_DIR_FSYNC)
        ++sync_failures_;
    database_.clear_error();
}

/// Returns false if the ledger ends and has no time for another attempt.
bool SqliteLedger::pause(Clock::duration time, Clock::time_point patience_ends) {
    const auto end = Clock::now() + time;
    do {
        if (Clock::now() >= patience_ends) {
            begin_refusing();
            refuse_all();
        }
        if (!queue_.sleep(std::min(time, look_around))) return pause_at_stop();
    } while (Clock::now() < end);
    return true;
}

/// A stop still tries for a while: Redis may need a moment, and requests that are refused now can't
/// be submitted again.
bool SqliteLedger::pause_at_stop() {
    if (!stop_patience_ends_) stop_patience_ends_ = Clock::now() + options_.stop_patience;
    if (refusing_ || Clock::now() >= *stop_patience_ends_) return false;
    std::this_thread::sleep_for(options_.first_pause);
    return true;
}

void SqliteLedger::begin_refusing() {
    if (!refusing_.exchange(true)) spdlog::error("{} still fails; refusing everything", place());
}

void SqliteLedger::end_refusing() {
    if (refusing_.exchange(false)) spdlog::info("{} takes data again", place());
}

void SqliteLedger::note_trouble(const std::string& why) {
    const std::lock_guard lock(mutex_);
    trouble_ = fmt::format("{} fails: {}", place(), why);
}

/// Gives up permanently: another attempt would meet the same damage, and a stop must not mark the
/// store as clean. The next start checks all data.
void SqliteLedger::give_up(const std::string& why) {
    if (std::exchange(has_failed_, true)) return;
    spdlog::error("the store has failed: {}; nothing more is stored, and the gateway {}", why,
                  mirror_ ? "restarts" : "exits");
    mark_damaged(options_.folder, why);
    {
        const std::lock_guard lock(mutex_);
        trouble_ = "the store has failed: " + why;
    }
    refusing_ = true;
    database_.clear_error();
    if (options_.failed) options_.failed();
}

void SqliteLedger::refuse_all() {
    take();
    if (!taken_.empty()) has_refused_ = true;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
        auto* const unit = std::get_if<Unit>(&taken_[i].what);
        // Reads that were executed are answered, because nobody else would get the delayed messages
        // that they have taken.
        if (!unit && i < committed_) continue;
        taken_[i].outcome = Outcome::refused;
        if (unit && i < committed_) clear_promises(*unit);
        if (unit && unit->source != 0) refused_[unit->source] = unit->generation;
    }
    committed_ = 0;
    answer(taken_.size());
}

void SqliteLedger::answer(std::size_t count) {
    for (; count > 0; --count) {
        taken_.front().answer();
        taken_.pop_front();
    }
}

void SqliteLedger::keep_wal_short() {
    const auto bytes = static_cast<std::size_t>(database_.wal_pages()) * page_size;
    const bool is_due = bytes > options_.wal_bytes || commits_.file_size().awaits_checkpoint();
    if (!is_due || Clock::now() < next_checkpoint_) return;
    checkpoint(SQLITE_CHECKPOINT_RESTART);
    if (database_.ok()) return commits_.file_size().checkpointed();
    if (database_.damaged()) return give_up(database_.error_text());
    // Nothing is lost: the WAL keeps everything until a checkpoint has succeeded.
    spdlog::error("the log can't be copied into the database: {}", database_.error_text());
    database_.clear_error();
    next_checkpoint_ = Clock::now() + 1s;
}

void SqliteLedger::keep_wal_synced() {
    if (options_.fsync != Fsync::each_second || !unsynced_ || has_failed_) return;
    if (Clock::now() < next_sync_) return;
    next_sync_ = Clock::now() + 1s;
    unsynced_ = false;
    database_.sync_wal();
    if (database_.ok()) return;
    spdlog::error("the disk fails: {}", database_.error_text());
    note_failure();
    if (renew_wal(Clock::now() + options_.patience)) end_refusing();
}

/// Copies all of the WAL into the database and begins a new WAL, so that nothing depends on pages
/// that a failed sync may have lost. When the patience ends, all requests are refused, even units
/// that are committed, because a power cut could still lose them. Returns false if the ledger ends
/// before the WAL is copied.
bool SqliteLedger::renew_wal(Clock::time_point patience_ends) {
    for (Clock::duration time = options_.first_pause;;
         time = std::min<Clock::duration>(2 * time, longest_pause)) {
        checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
        if (database_.ok()) break;
        if (database_.damaged()) {
            give_up(database_.error_text());
            return false;
        }
        note_failure();
        if (!pause(time, patience_ends)) return false;
    }
    sync_failures_ = 0;
    return true;
}

/// Measures the files afterwards, because a checkpoint may shorten them.
void SqliteLedger::checkpoint(int mode) {
    if (mode == SQLITE_CHECKPOINT_TRUNCATE) store_.mark.expect_nothing();
    database_.checkpoint(mode);
    if (database_.ok()) {
        store_.mark.restarted();
        commits_.begin_wal(store_.mark.next_wal());
    }
    files_.measure();
}

bool SqliteLedger::close_in_order() {
    std::string why = has_failed_ ? trouble() : files_.look().moved;
    if (why.empty()) {
        // After a refusal, others may have been told of data that is not stored. Then the store is
        // not marked as clean.
        if (!has_refused_) database_.run("INSERT OR REPLACE INTO meta VALUES('clean', 1)");
        checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
        if (mirror_) mirror_->write();
        if (!database_.ok()) why = database_.error_text();
        if (mirror_ && why.empty()) mirror_->leave();
        if (why.empty() && has_refused_) why = "the last changes were refused";
    }
    if (!why.empty()) spdlog::error("the store was not closed in order: {}", why);
    return why.empty();
}

}  // namespace pulsegate
