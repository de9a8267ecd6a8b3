#include "server/store/mirror/mirror.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "server/store/mirror/copying.h"
#include "server/store/mirror/filling.h"

namespace pulsegate {

namespace {

/// A full store still takes this many bytes: data that was promised before the store was known to
/// be full, and changes with which clients empty their queues.
constexpr std::ptrdiff_t most_overfilled = 16 * 1024 * 1024;

constexpr std::chrono::milliseconds pause_between_writes{100};

std::ptrdiff_t size_of(const std::optional<std::string>& row) { return row ? std::ssize(*row) : 0; }

int code_of(RowStore::Answer answer) {
    return answer == RowStore::Answer::full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

}  // namespace

void Mirror::begin(Database& database) {
    database_ = &database;
    fill_tables(database, rows_, owners_);
    collector_ = std::make_unique<ChangeCollector>(database, owners_);
}

void Mirror::prepare() {
    if (is_emptied_ && database_->ok()) rewrite_all();
}

void Mirror::write() {
    if (!database_->ok()) return;
    const std::vector<RowChange> changes = pending();
    if (changes.empty() && !is_full()) {
        if (!is_well_) is_done(rows_.look());
        return;
    }
    const RowStore::Result result = hand_over(changes);
    is_away_ = result.answer == RowStore::Answer::away;
    if (!is_done(result) && is_away_) keep_unsure();
}

void Mirror::write_at_start(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    write();
    while (is_away_ && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(pause_between_writes);
        database_->clear_error();
        write();
    }
    if (!database_->ok()) throw std::runtime_error(database_->error_text());
    committed();
}

/// The unsure rows, and the rows that this transaction has changed.
std::vector<RowChange> Mirror::pending() const {
    std::vector<RowChange> changes;
    for (const auto& [key, change] : collector_->changes())
        if (change.is_change() || unsure_.contains(key)) changes.push_back({key, change.after});
    for (const auto& [key, value] : unsure_)
        if (!collector_->changes().contains(key)) changes.push_back({key, value});
    return changes;
}

std::ptrdiff_t Mirror::growth() const {
    std::ptrdiff_t bytes = 0;
    for (const auto& [key, change] : collector_->changes())
        bytes += size_of(change.after) - size_of(change.before);
    return bytes;
}

RowStore::Result Mirror::hand_over(const std::vector<RowChange>& changes) {
    RowStore::Result result = rows_.write(changes, false);
    if (result.answer == RowStore::Answer::done) note_room();
    if (result.answer != RowStore::Answer::full) return result;
    note_full(result);
    if (overfilled_ + growth() > most_overfilled) return result;
    result = rows_.write(changes, true);
    if (result.answer == RowStore::Answer::done)
        overfilled_ = std::max<std::ptrdiff_t>(overfilled_ + growth(), 0);
    return result;
}

void Mirror::note_room() {
    overfilled_ = 0;
    if (is_full_.exchange(false)) spdlog::info("there is room for rows again");
}

void Mirror::note_full(const RowStore::Result& result) {
    {
        const std::lock_guard lock(mutex_);
        why_full_ = result.why;
    }
    if (!is_full_.exchange(true))
        spdlog::error("{}; new data is refused until there is room", result.why);
}

bool Mirror::is_done(const RowStore::Result& result) {
    note(result);
    if (!is_well_) database_->fail(code_of(result.answer), result.why);
    return is_well_;
}

void Mirror::note(const RowStore::Result& result) {
    is_well_ = result.answer == RowStore::Answer::done;
    is_fenced_ = is_fenced_ || result.answer == RowStore::Answer::fenced;
    is_emptied_ = is_emptied_ || result.answer == RowStore::Answer::emptied;
}

/// The transaction will be rolled back, so the tables have the earlier values again. The row store
/// may have the new values, so the earlier ones are noted as unsure. A row with an unknown earlier
/// value is not noted, because it may exist: it would be deleted.
void Mirror::keep_unsure() {
    for (const auto& [key, change] : collector_->changes())
        if (!change.is_unknown) unsure_.try_emplace(key, change.before);
}

void Mirror::committed() {
    unsure_.clear();
    collector_->committed();
}

void Mirror::rolled_back() { collector_->rolled_back(); }

bool Mirror::look() {
    if (is_emptied_) return false;
    note(rows_.look());
    return is_well_;
}

std::string Mirror::why_full() const {
    const std::lock_guard lock(mutex_);
    return why_full_;
}

void Mirror::rewrite_all() {
    spdlog::error("the store of rows was emptied; writing all rows again");
    RowPlaces places(owners_);
    std::size_t count = 0;
    const auto take = [&](const std::vector<RowChange>& rows) {
        count += rows.size();
        return is_done(rows_.rewrite(rows));
    };
    if (!copy_rows(*database_, collector_->tables(), places, take) || !take({})) return;
    is_emptied_ = false;
    unsure_.clear();
    spdlog::info("{} rows were written again", count);
}

}  // namespace pulsegate
