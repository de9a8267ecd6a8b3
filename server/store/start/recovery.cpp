#include "server/store/start/recovery.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <string>

#include "server/store/pages/page_image.h"
#include "server/store/pages/tree_reader.h"
#include "server/store/start/salvage.h"

namespace pulsegate {

namespace {

constexpr std::size_t format_place = 18;  ///< in the first page
constexpr char format_without_log = 1;

/// True if the database uses no WAL. A backup uses none.
bool has_no_log(const StoreFolder& folder) {
    DatabasePage page;
    return PageImage(folder.database(), nullptr).has(1, page) &&
           std::string_view(page.data(), page.size()).starts_with("SQLite format 3") &&
           page[format_place] == format_without_log;
}

}  // namespace

Recovery::Recovery(const StoreFolder& folder)
    : folder_((folder.clean_up(), folder)),
      wal_(folder.wal()),
      mark_(read_store_mark(folder.mark())) {}

void Recovery::run() {
    if (database_size() == 0) return begin_without_database();
    check_wal();
}

std::uintmax_t Recovery::database_size() const {
    std::error_code missing;
    const auto size = std::filesystem::file_size(folder_.database(), missing);
    return missing ? 0 : size;
}

/// Saves the data of the WAL first, because SQLite deletes the WAL of an empty database.
void Recovery::begin_without_database() {
    const bool has_log = !wal_.frames().empty();
    if (!has_log && !mark_) return;  // a new store
    folder_.note_damage(fmt::format(
        "{} is missing or empty: its data is lost{}", folder_.database(),
        has_log ? ", except the data in its write-ahead log" : ", unless there is a backup"));
    if (has_log) return salvage(wal_, false);
    if (wal_.size() > 0) folder_.set_wal_aside();
}

Recovery::Identity Recovery::identity(const WalFile* wal) const {
    const PageImage image(folder_.database(), wal);
    TreeReader reader(image, false);
    const auto roots = stored_table_roots(reader);
    const auto meta = roots.find("meta");
    Identity found;
    if (meta == roots.end()) return found;
    reader.rows(meta->second, false, [&](const StoredRow& row) {
        if (row.values.size() != 2) return;
        const auto* const key = std::get_if<StoredText>(&row.values[0]);
        const auto* const value = std::get_if<std::int64_t>(&row.values[1]);
        if (!key || !value) return;
        if (key->text == "store") found.store = static_cast<std::uint64_t>(*value);
        if (key->text == "wal") found.wal = static_cast<std::uint64_t>(*value);
        if (key->text == "clean") found.clean = *value;
    });
    return found;
}

void Recovery::check_wal() {
    const Identity without = identity(nullptr);
    const Identity with = identity(&wal_);
    if (!wal_.frames().empty() && !belongs(without, with)) return void(folder_.set_wal_aside());
    check_mark(without, with);
    const bool is_open = without.clean == 0 && !has_no_log(folder_);
    if (!mark_ && !wal_.is_there() && is_open)
        note_loss(
            fmt::format("{} is missing, and the store was not closed: the latest commits are lost",
                        folder_.wal()));
    if (wal_.is_damaged()) mend_wal(without.wal > 0 && without.wal == with.wal);
}

/// A WAL fits if it belongs to the same store, and its number is the one in the database or the
/// next.
bool Recovery::belongs(const Identity& without, const Identity& with) {
    const char* why = nullptr;
    if (has_no_log(folder_))
        why = "of a database that has none, such as a backup";
    else if (without.store && with.store && without.store != with.store)
        why = "of another store";
    else if (without.store && with.wal < without.wal)
        why = "older than the database";
    else if (without.store && with.wal > without.wal + 1)
        why = "newer than the database, which is an old copy";
    if (!why) return true;
    note_loss(fmt::format("{} is {}: its content is ignored", folder_.wal(), why));
    return false;
}

void Recovery::check_mark(const Identity& without, const Identity& with) {
    if (!mark_ || !without.store) return;  // damage is found elsewhere
    if (mark_->store != *without.store)
        return note_loss(
            fmt::format("{} is the database of a different store than before", folder_.database()));
    const bool is_latest = with.wal == mark_->at.wal;
    const StorePoint found{with.wal, is_latest ? wal_.frames().size() : 0};
    if (found >= mark_->at) return;
    const bool is_log_lost = found.wal + 1 >= mark_->at.wal && mark_->at.frames > 0;
    if (!is_log_lost)
        return note_loss(
            fmt::format("{} is an old copy: later commits are missing", folder_.database()));
    note_loss(fmt::format("{} is missing or cut: it has {} of {} pages of the latest commits",
                          folder_.wal(), found.frames, mark_->at.frames));
}

void Recovery::note_loss(std::string_view what) {
    lost_commits_ = true;
    folder_.note_damage(what);
}

/// `was_copied`: a checkpoint has copied all or some of these pages into the database.
void Recovery::mend_wal(bool was_copied) {
    const bool is_marked = mark_ && wal_.found_by_sqlite() < mark_->at.frames;
    if (wal_.may_be_torn() && !is_marked)
        return spdlog::warn("{} ends in the middle of a commit that was not acknowledged",
                            folder_.wal());
    const auto missing = wal_.missing_pages();
    if (missing.empty())
        spdlog::error("{} was damaged; all of its {} pages could be restored", folder_.wal(),
                      wal_.frames().size());
    else
        note_loss(fmt::format("{} is damaged: {} pages of the latest commits can't be read",
                              folder_.wal(), missing.size()));
    const bool is_in_database = was_copied && !missing.contains(0);
    if (!missing.empty() && !is_in_database) return salvage(wal_, true);
    const std::string error = wal_.write_good(folder_.unfinished(), missing);
    if (!error.empty()) folder_.refuse(error);
    folder_.replace_wal();
}

void Recovery::salvage(std::string_view why) {
    folder_.note_damage(fmt::format("{} is damaged: {}", folder_.database(), why));
    const WalFile wal(folder_.wal());  // a repair may have replaced it
    salvage(wal, false);
}

void Recovery::salvage(const WalFile& wal, bool is_mixed) {
    const auto size = database_size() + wal.size();
    std::string error;
    {
        const PageImage image(folder_.database(), &wal);
        error = pulsegate::salvage(image, is_mixed, folder_.unfinished());
    }
    if (error.empty()) return void(folder_.replace_database());
    folder_.clean_up();
    folder_.refuse(fmt::format(
        "it is damaged, and what can be read can't be copied to {}: {}; make room for up to {} MB "
        "there and start again: nothing was changed",
        folder_.unfinished(), error, size / 1'000'000 + 1));
}

}  // namespace pulsegate
