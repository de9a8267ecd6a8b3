#include "server/store/start/salvage.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/overloaded.h"
#include "server/store/database/database.h"
#include "server/store/database/schema.h"
#include "server/store/pages/tree_reader.h"

namespace pulsegate {

namespace {

constexpr std::size_t version_place = 60;  ///< in the first page
constexpr std::size_t application_place = 68;

struct Column {
    std::string name;
    std::string type;
    bool is_rowid = false;  ///< an alias of the rowid: the record does not have its value
};

bool fits(const StoredValue& value, const Column& column) {
    return std::visit(Overloaded{[](std::monostate) { return true; },
                                 [&](std::int64_t) { return column.type == "INTEGER"; },
                                 [](double) { return false; },
                                 [&](StoredText) { return column.type != "INTEGER"; },
                                 [&](StoredBytes) { return column.type == "BLOB"; }},
                      value);
}

void bind(sqlite3_stmt* statement, int place, const StoredValue& value) {
    std::visit(
        Overloaded{[&](std::monostate) { sqlite3_bind_null(statement, place); },
                   [&](std::int64_t number) { sqlite3_bind_int64(statement, place, number); },
                   [&](double number) { sqlite3_bind_double(statement, place, number); },
                   [&](StoredText text) {
                       sqlite3_bind_text64(statement, place, text.text.data(), text.text.size(),
                                           SQLITE_STATIC, SQLITE_UTF8);
                   },
                   [&](StoredBytes bytes) {
                       sqlite3_bind_blob64(statement, place, bytes.bytes.data(), bytes.bytes.size(),
                                           SQLITE_STATIC);
                   }},
        value);
}

/// Puts the rows of one table into the new database.
class TableWriter {
public:
    TableWriter(Database& database, const Table& table) : database_(database), table_(table) {
        Statement(database, fmt::format("PRAGMA table_info({})", table.name).c_str())
            .each([&](const Row& row) {
                const bool is_key = row.number(5) != 0;
                columns_.push_back({row.text(1), row.text(2),
                                    table.has_rowid && is_key && row.view(2) == "INTEGER"});
            });
    }
    ~TableWriter() {
        for (const auto& [columns, statement] : insertions_) sqlite3_finalize(statement);
    }
    TableWriter(const TableWriter&) = delete;
    TableWriter& operator=(const TableWriter&) = delete;

    void put(StoredRow row) {
        if (!database_.ok()) return;
        if (row.values.empty() || row.values.size() > columns_.size()) return void(++strange_);
        if (!row.is_sound && !table_.has_checksum) return void(++strange_);
        for (std::size_t i = 0; i < row.values.size(); ++i) {
            if (columns_[i].is_rowid) row.values[i] = row.rowid;
            if (!fits(row.values[i], columns_[i])) return void(++strange_);
        }
        insert(row.values);
    }

    std::size_t rows() const { return rows_; }
    /// The number of rows that don't fit this table, or that can't be distinguished from damaged
    /// rows.
    std::size_t strange() const { return strange_; }

private:
    void insert(const std::vector<StoredValue>& values) {
        sqlite3_stmt*& statement = insertions_[values.size()];
        if (!statement) statement = prepare(values.size());
        if (!statement) return;
        for (std::size_t i = 0; i < values.size(); ++i)
            bind(statement, static_cast<int>(i + 1), values[i]);
        database_.note(sqlite3_step(statement));
        rows_ += static_cast<std::size_t>(sqlite3_changes(database_.handle()));
        sqlite3_reset(statement);
    }

    /// Names only the first `count` columns, because a row that is older than a column does not
    /// have it.
    sqlite3_stmt* prepare(std::size_t count) {
        std::string names;
        std::string places;
        for (std::size_t i = 0; i < count; ++i) {
            const char* const separator = i == 0 ? "" : ",";
            names += separator + columns_[i].name;
            places += fmt::format("{}?", separator);
        }
        sqlite3_stmt* statement = nullptr;
        const auto sql =
            fmt::format("INSERT OR IGNORE INTO {}({}) VALUES({})", table_.name, names, places);
        database_.note(
            sqlite3_prepare_v2(database_.handle(), sql.c_str(), -1, &statement, nullptr));
        return statement;
    }

    Database& database_;
    const Table& table_;
    std::vector<Column> columns_;
    std::map<std::size_t, sqlite3_stmt*> insertions_;  ///< by the number of columns
    std::size_t rows_ = 0;
    std::size_t strange_ = 0;
};

class Salvage {
public:
    Salvage(const PageImage& image, bool is_mixed, const std::string& path)
        : reader_(image, is_mixed), made_(path) {}

    std::string run() {
        make();
        find_roots();
        made_.run("BEGIN IMMEDIATE");
        for (const Table& table : tables) begin_table(table);
        for (std::size_t i = 0; i < writers_.size(); ++i)
            end_table(*writers_[i], tables[i], lost_[i]);
        writers_.clear();
        tidy();
        made_.run("COMMIT");
        return made_.error_text();
    }

private:
    int version() const {
        const auto found = static_cast<int>(reader_.header_number(version_place));
        const bool is_ours = reader_.header_number(application_place) == application_id;
        return is_ours && found > 0 && found <= newest_schema() ? found : newest_schema();
    }

    /// An interrupted salvage is started anew, so the new database needs no journal and no sync
    /// before the end. Without a journal, pages leave the memory at once.
    void make() {
        made_.run("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL");
        made_.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF");
        made_.run("PRAGMA synchronous = OFF; PRAGMA cache_size = -16384");
        migrate(made_, 0, version());
    }

    /// Takes the roots from the damaged database. Roots that can't be read are taken from the new
    /// database, which has created its tables in the same order.
    void find_roots() {
        roots_ = stored_table_roots(reader_);
        const bool knows_all = reader_.unreadable() == 0 && !roots_.empty();
        if (knows_all) return;
        Statement(made_, "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'")
            .each([&](const Row& row) { roots_.emplace(row.text(0), row.as<std::uint32_t>(1)); });
    }

    void begin_table(const Table& table) {
        writers_.push_back(std::make_unique<TableWriter>(made_, table));
        const auto root = roots_.find(table.name);
        if (root == roots_.end()) return lost_.push_back(0);
        reader_.rows(root->second, table.has_rowid,
                     [&](const StoredRow& row) { writers_.back()->put(row); });
        lost_.push_back(reader_.unreadable());
    }

    void end_table(TableWriter& writer, const Table& table, std::size_t lost) {
        const auto root = roots_.find(table.name);
        if (root == roots_.end()) return;  // an older version without this table
        reader_.orphans(root->second, table.has_rowid,
                        [&](const StoredRow& row) { writer.put(row); });
        lost += reader_.unreadable() + writer.strange();
        if (lost == 0)
            return spdlog::warn("salvaged {} rows of table {}", writer.rows(), table.name);
        spdlog::error("salvaged {} rows of table {}; {} of its pages or rows can't be read",
                      writer.rows(), table.name, lost);
    }

    void tidy() {
        for (const Table& table : tables)
            if (table.has_owner && roots_.contains(table.name))
                made_.run(fmt::format("DELETE FROM {} WHERE owner NOT IN (SELECT id FROM owner)",
                                      table.name)
                              .c_str());
        if (roots_.contains("delayed_sum"))
            made_.run(
                "INSERT INTO delayed_sum"
                " SELECT user, count(*), sum(bytes) FROM delayed GROUP BY user");
        // The last events may be lost, and their numbers may be used again. So the log gets a new
        // identity, and readers with an old cursor are told.
        made_.run("DELETE FROM meta WHERE key IN ('event_log', 'clean')");
        // No stamp may be used twice. If the floor is lost, the highest stored stamp replaces it.
        made_.run(
            "INSERT OR REPLACE INTO meta SELECT 'floor', highest FROM"
            " (SELECT max(value) AS highest FROM"
            " (SELECT value FROM meta WHERE key = 'floor'"
            " UNION SELECT max(stamp) FROM message UNION SELECT max(stamp) FROM retained))"
            " WHERE highest IS NOT NULL");
        // No number of a delayed message may be used twice either.
        if (roots_.contains("delayed"))
            made_.run(
                "INSERT OR REPLACE INTO meta SELECT 'delayed', highest FROM"
                " (SELECT max(value) AS highest FROM"
                " (SELECT value FROM meta WHERE key = 'delayed'"
                " UNION SELECT max(id & 2147483647) FROM delayed))"
                " WHERE highest IS NOT NULL");
        // Skips numbers of WALs, so that no WAL of the damaged database fits this one.
        made_.run("UPDATE meta SET value = value + 1000 WHERE key = 'wal'");
    }

    TreeReader reader_;
    Database made_;
    std::map<std::string, std::uint32_t> roots_;
    std::vector<std::unique_ptr<TableWriter>> writers_;
    std::vector<std::size_t> lost_;
};

}  // namespace

std::string salvage(const PageImage& image, bool is_mixed, const std::string& path) {
    return Salvage(image, is_mixed, path).run();
}

}  // namespace pulsegate
