#include "server/store/salvage.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>

#include "server/base/clock.h"
#include "server/store/schema.h"

namespace pulsegate {

namespace {

class Rows {
public:
    Rows(sqlite3* database, const std::string& sql) {
        sqlite3_prepare_v2(database, sql.c_str(), -1, &statement_, nullptr);
    }
    ~Rows() { sqlite3_finalize(statement_); }
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    sqlite3_stmt* get() { return statement_; }

private:
    sqlite3_stmt* statement_ = nullptr;
};

/// The damaged database may be of an older version, with fewer columns.
std::string insertion(const char* table, sqlite3_stmt* from) {
    std::string columns;
    std::string places;
    for (int i = 0; i < sqlite3_column_count(from); ++i) {
        const char* const separator = i == 0 ? "" : ",";
        columns += fmt::format("{}{}", separator, sqlite3_column_name(from, i));
        places += fmt::format("{}?", separator);
    }
    return fmt::format("INSERT OR IGNORE INTO {}({}) VALUES({})", table, columns, places);
}

/// Copies rows up to the first one that can't be read. True if there was none such.
bool copy_rows(sqlite3* from, sqlite3* to, const Table& table, const char* direction, int& copied) {
    Rows read(from, fmt::format("SELECT * FROM {} ORDER BY {} {}", table.name, table.scan_key,
                                direction));
    const int columns = sqlite3_column_count(read.get());
    if (columns == 0) return false;
    Rows write(to, insertion(table.name, read.get()));
    if (sqlite3_bind_parameter_count(write.get()) != columns) return false;
    int result = SQLITE_ROW;
    while ((result = sqlite3_step(read.get())) == SQLITE_ROW) {
        for (int i = 0; i < columns; ++i)
            sqlite3_bind_value(write.get(), i + 1, sqlite3_column_value(read.get(), i));
        if (sqlite3_step(write.get()) == SQLITE_DONE) copied += sqlite3_changes(to);
        sqlite3_reset(write.get());
    }
    return result == SQLITE_DONE;
}

void salvage_table(Database& damaged, Database& database, const Table& table) {
    int copied = 0;
    const bool whole = copy_rows(damaged.handle(), database.handle(), table, "ASC", copied);
    if (whole) return spdlog::warn("salvaged all {} rows of table {}", copied, table.name);
    copy_rows(damaged.handle(), database.handle(), table, "DESC", copied);
    spdlog::error("salvaged {} rows of table {}; others can't be read", copied, table.name);
}

}  // namespace

std::string set_aside(const std::string& path) {
    std::string time = rfc3339(wall_now());
    std::erase(time, ':');
    std::string aside = path + ".bad-" + time;
    std::filesystem::rename(path, aside);
    std::error_code none;  // there may be no WAL
    std::filesystem::rename(path + "-wal", aside + "-wal", none);
    spdlog::error("{} is damaged and was renamed to {}; going on with what can be read", path,
                  aside);
    return aside;
}

void salvage(const std::string& damaged_path, Database& database, const char* vfs) {
    Database damaged(damaged_path, vfs);
    damaged.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA cell_size_check = ON");
    damaged.clear_error();
    database.run("BEGIN IMMEDIATE");
    for (const Table& table : tables) salvage_table(damaged, database, table);
    for (const Table& table : tables)
        if (table.has_owner)
            database.run(
                fmt::format("DELETE FROM {} WHERE owner NOT IN (SELECT id FROM owner)", table.name)
                    .c_str());
    database.run(
        "INSERT INTO delayed_sum SELECT user, count(*), sum(bytes) FROM delayed GROUP BY user");
    // The last events may be lost, and their numbers be given again: it is another log, and whoever
    // has a place in the old one is told so.
    database.run("DELETE FROM meta WHERE key = 'event_log'");
    database.run("COMMIT");
}

}  // namespace pulsegate
