#include "server/store/backup/backup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "server/base/machine.h"

namespace pulsegate {

namespace {

namespace fs = std::filesystem;

/// The copy is synced in pieces of this size. A larger piece would delay the ledger's own syncs.
constexpr std::uint64_t sync_bytes = 1024 * 1024;
/// The copy may be at most this far ahead of the disk.
constexpr std::uint64_t most_unsynced = 8 * 1024 * 1024;
/// The check of a copy keeps a core busy for some time. The event loops have priority.
constexpr int lower_priority = 10;

constexpr const char* stops = "the gateway stops";

BackupResult refusal(BackupResult::Status status, std::string error) {
    BackupResult result;
    result.status = status;
    result.error = std::move(error);
    return result;
}

std::string first_text(Database& database, const char* query) {
    std::string found;
    Statement(database, query).each([&](const Row& row) { found = row.text(0); });
    return found;
}

}  // namespace

Backup::Backup(Database& source, std::string folder, std::function<void()> call_ledger)
    : source_(source), folder_(std::move(folder)), call_ledger_(std::move(call_ledger)) {}

Backup::~Backup() {
    stop();
    if (thread_.joinable()) thread_.join();
}

void Backup::start(BackupOrder order, BackupAnswer answer) {
    {
        const std::lock_guard lock(mutex_);
        if (!busy_) {
            if (thread_.joinable()) thread_.join();  // it has nothing left to do but answer
            thread_ = std::thread([this, order = std::move(order), answer = std::move(answer)] {
                name_thread("backup");
                run(order, answer);
            });
            busy_ = true;
            return;
        }
    }
    answer(refusal(BackupResult::Status::busy, "another backup is under way"));
}

void Backup::begin(bool in_trouble) {
    std::string part;
    {
        const std::lock_guard lock(mutex_);
        if (!copies_) return;
        part = part_;
    }
    if (in_trouble) return end_copy("the disk is in trouble: nothing is stored");
    copy_.emplace(source_, part);
}

bool Backup::step() {
    if (!copy_) return false;
    bool fails = false;
    {
        const std::lock_guard lock(mutex_);
        fails = fails_;
        if (!fails && copied_ > synced_ + most_unsynced) return false;
    }
    if (fails || !copy_->step()) {
        end_copy(copy_->error());
        return true;
    }
    const std::lock_guard lock(mutex_);
    copied_ = copy_->bytes();
    synced_ = std::min(synced_, copied_);
    if (copied_ >= synced_ + sync_bytes) changed_.notify_one();
    return true;
}

void Backup::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        if (checked_) sqlite3_interrupt(checked_->handle());
    }
    end_copy(stops);
}

void Backup::end_copy(std::string error) {
    copy_.reset();
    const std::lock_guard lock(mutex_);
    if (!copies_) return;
    copies_ = false;
    error_ = std::move(error);
    changed_.notify_one();
}

// All below runs on the backup's thread.

void Backup::run(const BackupOrder& order, const BackupAnswer& answer) {
    ::setpriority(PRIO_PROCESS, 0, lower_priority);  // Linux: of this thread alone
    const auto began = std::chrono::steady_clock::now();
    BackupResult result = write(order);
    result.took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began);
    if (result.status == BackupResult::Status::written)
        spdlog::info("backup: {}: {} bytes in {} ms", order.file, result.bytes,
                     result.took.count());
    else
        spdlog::error("backup: {}", result.error);
    {
        const std::lock_guard lock(mutex_);
        busy_ = false;
    }
    answer(result);
}

BackupResult Backup::write(const BackupOrder& order) {
    if (auto objection = objection_to(order)) return *std::move(objection);
    BackupFile file(order.file);
    std::string error = file.create();
    if (error.empty()) error = copy(file);
    if (error.empty()) error = check(file.part());
    if (error.empty()) error = file.sync();
    if (!error.empty()) return refusal(BackupResult::Status::failed, std::move(error));
    if (auto objection = objection_to(order)) return *std::move(objection);
    BackupResult result;
    result.bytes = file.bytes();
    error = file.publish();
    if (!error.empty()) return refusal(BackupResult::Status::failed, std::move(error));
    return result;
}

std::optional<BackupResult> Backup::objection_to(const BackupOrder& order) const {
    using Status = BackupResult::Status;
    const fs::path path(order.file);
    if (!path.is_absolute() || !path.has_filename() || order.file.find('\0') != order.file.npos)
        return refusal(Status::bad_file, "file is not an absolute path of a file");
    std::error_code missing;
    if (fs::equivalent(path.parent_path(), folder_, missing))
        return refusal(Status::bad_file,
                       "that is the gateway's own data folder: choose another for backups");
    const fs::file_type type = fs::symlink_status(path, missing).type();
    if (type == fs::file_type::none || type == fs::file_type::not_found) return std::nullopt;
    if (type != fs::file_type::regular)
        return refusal(Status::bad_file, fmt::format("{} exists, and is not a file", order.file));
    if (!order.overwrite)
        return refusal(Status::exists, fmt::format("{} exists already", order.file));
    if (!BackupFile::may_be_replaced(order.file))
        return refusal(Status::bad_file, fmt::format("{} exists, and is not a backup", order.file));
    return std::nullopt;
}

/// Has the ledger's thread copy the pages, and syncs them meanwhile.
std::string Backup::copy(BackupFile& file) {
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) return stops;
        part_ = file.part();
        error_.clear();
        copied_ = synced_ = 0;
        fails_ = false;
        copies_ = true;
    }
    call_ledger_();
    std::string sync_error;
    std::unique_lock lock(mutex_);
    while (copies_) {
        changed_.wait(lock,
                      [&] { return !copies_ || (!fails_ && copied_ >= synced_ + sync_bytes); });
        if (!copies_) break;
        const std::uint64_t copied = copied_;
        lock.unlock();
        sync_error = file.sync();
        lock.lock();
        fails_ = !sync_error.empty();
        synced_ = copied;
    }
    if (fails_) return sync_error;
    if (stopping_ || error_.empty()) return error_;
    return fmt::format("can't copy to {}: {}", part_, error_);
}

/// Makes the copy a database without a WAL, and reads all of it. The copy's log of events gets
/// another identity: from now on, the same numbers mean different events in the original and in the
/// copy.
std::string Backup::check(const std::string& path) {
    Database database(path);
    database.run("PRAGMA locking_mode = EXCLUSIVE");
    const std::string mode = first_text(database, "PRAGMA journal_mode = DELETE");
    database.run("DELETE FROM meta WHERE key = 'event_log'");
    if (!begin_check(database)) return stops;
    const std::string found = first_text(database, "PRAGMA quick_check(1)");
    if (!end_check()) return stops;
    if (!database.ok()) return fmt::format("{} can't be read: {}", path, database.error_text());
    if (mode != "delete") return fmt::format("{} is in journal mode {}", path, mode);
    return found == "ok" ? "" : fmt::format("the copy is damaged: {}", found);
}

/// Returns false if the backup is given up. Otherwise `stop` can interrupt the database from now
/// on.
bool Backup::begin_check(Database& database) {
    const std::lock_guard lock(mutex_);
    if (!stopping_) checked_ = &database;
    return !stopping_;
}

bool Backup::end_check() {
    const std::lock_guard lock(mutex_);
    checked_ = nullptr;
    return !stopping_;
}

}  // namespace pulsegate
