#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"

namespace pulsegate {

/// What a start has found damaged or missing.
struct StoreDamage {
    WallMillis found = 0;
    std::string what{};
};

/// The names of a store's files, and what a start does with them before SQLite opens them. Each of
/// its methods may be interrupted anywhere, and be called again by the next start. Throws
/// std::runtime_error with one line that says what to do.
class StoreFolder {
public:
    explicit StoreFolder(std::string folder) : folder_(std::move(folder)) {}

    std::string database() const { return folder_ + "/pulsegate.db"; }
    std::string wal() const { return database() + "-wal"; }
    std::string mark() const { return database() + "-mark"; }
    /// Of a database or a log that is being made.
    std::string unfinished() const { return database() + ".new"; }

    /// Deletes what a start has not finished, and finishes what it has made whole.
    void clean_up() const;

    /// Gives the file that is made the database's name; the old one and its log are set aside.
    /// Returns their new name.
    std::string replace_database() const;
    /// Gives the file that is made the log's name. A copy of the old one is kept.
    void replace_wal() const;
    /// Returns its new name.
    std::string set_wal_aside() const;
    /// Gives the file that is made a name that is free.
    void give_name(const std::string& path) const;

    /// Logs it, and writes it to the file `damage`, so that the operator is told of it until that
    /// file is deleted.
    void note_damage(std::string_view what) const;
    /// The last that was noted.
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
