#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "server/store/database/checked_files.h"

namespace pulsegate {

/// One connection to an SQLite database with checksums on its pages. Its first error sticks:
/// nothing more is done until `clear_error`. So the caller runs all statements and checks once. One
/// thread at a time may use it.
class Database {
public:
    /// Opens the file, or creates it. `vfs` is the name of an SQLite VFS; null: the usual one.
    explicit Database(const std::string& path, const char* vfs = nullptr);
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    bool ok() const { return error_ == SQLITE_OK; }
    /// SQLite's extended code of the first error.
    int error() const { return error_; }
    const std::string& error_text() const { return error_text_; }
    /// Does the error mean that the content of a file is damaged, rather than that the disk fails?
    bool damaged() const;
    void clear_error();
    void note(int result);
    /// Sets an error that SQLite does not see.
    void fail(int code, std::string text);

    /// Runs statements that return no rows.
    void run(const char* sql);

    /// Ends a transaction that has failed, if SQLite has not done so already.
    void roll_back();

    /// Copies the WAL into the database file. `SQLITE_CHECKPOINT_RESTART`: the next commit starts
    /// at the beginning of the WAL; `SQLITE_CHECKPOINT_TRUNCATE`: the WAL is empty afterwards.
    void checkpoint(int mode);

    /// Syncs the WAL, for connections that don't at each commit.
    void sync_wal();

    /// Do its pages have checksums? Databases of older versions have none.
    bool has_checksums() const { return files_.has_checksums(); }
    /// Makes room for checksums in a new database, or in one that VACUUM makes.
    void reserve_checksums();

    /// May the first page have changed since the last call?
    bool take_first_page_written() { return files_.take_first_page_written(); }

    void count_damaged_row() { damaged_rows_.fetch_add(1, std::memory_order_relaxed); }
    /// The number of pages and rows that were found damaged, including corrected ones. Any thread
    /// may call it.
    std::uint64_t damage() const {
        return files_.damaged() + damaged_rows_.load(std::memory_order_relaxed);
    }

    /// The pages in the WAL after the last commit.
    int wal_pages() const { return wal_pages_; }

    sqlite3* handle() { return handle_; }

private:
    static int committed(void* self, sqlite3*, const char*, int pages);

    CheckedFiles files_;
    std::atomic<std::uint64_t> damaged_rows_{0};
    sqlite3* handle_ = nullptr;
    int error_ = SQLITE_OK;
    std::string error_text_;
    int wal_pages_ = 0;
};

/// Bytes for a column, as opposed to text; nothing: NULL.
struct Blob {
    std::optional<std::string_view> bytes;
};

/// A row that a statement returns, with columns from 0 on.
class Row {
public:
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}

    std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
    std::uint64_t bits(int column) const { return static_cast<std::uint64_t>(number(column)); }
    template <class Number>
    Number as(int column) const {
        return static_cast<Number>(number(column));
    }
    bool is_null(int column) const { return type(column) == SQLITE_NULL; }
    /// `SQLITE_INTEGER` and the like.
    int type(int column) const { return sqlite3_column_type(statement_, column); }
    /// Text or bytes, valid until the next row.
    std::string_view view(int column) const;
    std::string text(int column) const { return std::string(view(column)); }

private:
    sqlite3_stmt* statement_;
};

/// A prepared statement of a connection, which must outlive it.
class Statement {
public:
    Statement(Database& database, const char* sql);
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    /// Returns the number of rows that it has changed.
    template <class... Values>
    int run(const Values&... values) {
        return each([](const Row&) {}, values...);
    }

    /// Calls `visit` with each row, until it returns false if it returns a bool.
    template <class Visit, class... Values>
    int each(Visit visit, const Values&... values) {
        if (!database_.ok()) return 0;
        int parameter = 0;
        (bind(++parameter, values), ...);
        while (step() && goes_on(visit)) {
        }
        return finish();
    }

    /// Like `run`, for values with types that are known at run time: `choose(i, bind)` calls `bind`
    /// with the value of the parameter i, from 0 on.
    template <class Choose>
    int run_chosen(int parameters, Choose choose) {
        if (!database_.ok()) return 0;
        for (int i = 0; i < parameters; ++i)
            choose(i, [&](const auto& value) { bind(i + 1, value); });
        while (step()) {
        }
        return finish();
    }

private:
    template <class Visit>
    bool goes_on(Visit& visit) {
        if constexpr (std::is_same_v<std::invoke_result_t<Visit&, Row>, bool>) {
            return visit(Row(statement_));
        } else {
            visit(Row(statement_));
            return true;
        }
    }
    template <class Number>
    std::enable_if_t<std::is_integral_v<Number>> bind(int parameter, Number value) {
        database_.note(sqlite3_bind_int64(statement_, parameter, static_cast<std::int64_t>(value)));
    }
    void bind(int parameter, std::string_view text);
    void bind(int parameter, const std::string& text) { bind(parameter, std::string_view(text)); }
    void bind(int parameter, const char* text) { bind(parameter, std::string_view(text)); }
    void bind(int parameter, const std::optional<std::string>& text);
    void bind(int parameter, const Blob& blob);
    bool step();
    int finish();

    Database& database_;
    sqlite3_stmt* statement_ = nullptr;
};

}  // namespace pulsegate
