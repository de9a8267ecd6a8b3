#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"

namespace pulsegate {

/// Damaged or missing data that a start has found.
struct StoreDamage {
    WallMillis found = 0;
    std::string what{};
};

/// The names of a store's files, and the operations of a start on them before SQLite opens them. A
/// crash may interrupt each method anywhere; then the next start calls it again. Throws
/// std::runtime_error with one line that says what to do.
class StoreFolder {
public:
    explicit StoreFolder(std::string folder) : folder_(std::move(folder)) {}

    std::string database() const { return folder_ + "/pulsegate.db"; }
    std::string wal() const { return database() + "-wal"; }
    std::string mark() const { return database() + "-mark"; }
    /// The name of a database or a log that is being made.
    std::string unfinished() const { return database() + ".new"; }

    /// Deletes unfinished files of an earlier start, and finishes the replacement by complete ones.
    void clean_up() const;

    /// Renames the new file to the database's name, and sets the old database and its log aside.
    /// Returns their new name.
    std::string replace_database() const;
    /// Renames the new file to the log's name, and keeps a copy of the old log.
    void replace_wal() const;
    /// Sets the log aside. Returns its new name.
    std::string set_wal_aside() const;
    /// Renames the new file to a free name.
    void give_name(const std::string& path) const;

    /// Logs it, and writes it to the file `damage`. The operator sees it until that file is
    /// deleted.
    void note_damage(std::string_view what) const;
    /// The latest damage that was noted.
    std::optional<StoreDamage> damage() const;

    void sync() const;
    [[noreturn]] void refuse(std::string_view why) const;

private:
    std::string new_name(std::string_view kind) const;
    void finish_replacing(const std::string& made) const;
    void rename(const std::string& from, const std::string& to) const;
    void remove(const std::string& path) const;
    void copy(const std::string& from, const std::string& to) const;
    void sync(const std::string& path) const;
    std::string damage_file() const { return folder_ + "/damage"; }

    const std::string folder_;
};

}  // namespace pulsegate
