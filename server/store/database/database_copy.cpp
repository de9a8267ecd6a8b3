#include "server/store/database/database_copy.h"

#include <chrono>

namespace pulsegate {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds step_time{1};
/// The number of pages that are copied before the clock is read again.
constexpr int pages_at_once = 20;
constexpr std::uint64_t copied_page_size = 4096;

}  // namespace

DatabaseCopy::DatabaseCopy(Database& source, const std::string& path) : destination_(path) {
    // A copy that fails is deleted, and one that is complete is synced as a whole. With a small
    // cache the last step has little left to write.
    destination_.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = 64");
    if (!destination_.ok()) return;
    backup_ = sqlite3_backup_init(destination_.handle(), "main", source.handle(), "main");
    if (!backup_) destination_.note(sqlite3_errcode(destination_.handle()));
}

DatabaseCopy::~DatabaseCopy() { sqlite3_backup_finish(backup_); }

bool DatabaseCopy::step() {
    int result = SQLITE_OK;
    const auto end = Clock::now() + step_time;
    while (backup_ && result == SQLITE_OK) {
        result = sqlite3_backup_step(backup_, pages_at_once);
        if (Clock::now() >= end) break;
    }
    if (backup_ && result == SQLITE_OK) return true;
    const int ended = sqlite3_backup_finish(backup_);
    backup_ = nullptr;
    destination_.note(result == SQLITE_DONE ? ended : result);
    return false;
}

std::uint64_t DatabaseCopy::bytes() const {
    if (!backup_) return 0;
    const int pages = sqlite3_backup_pagecount(backup_) - sqlite3_backup_remaining(backup_);
    return static_cast<std::uint64_t>(pages) * copied_page_size;
}

}  // namespace pulsegate
