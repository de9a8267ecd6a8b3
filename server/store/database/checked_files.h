#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace pulsegate {

/// A VFS on top of another one, for one connection. It adds a checksum to each page that is written
/// to a database, and compares it when the page is read, for every table and index. It corrects one
/// wrong bit, in the file too. Any other damage is SQLITE_IOERR_DATA. A page that is still in the
/// WAL is compared with SQLite's checksum of its frame, which SQLite itself does only when it opens
/// the WAL.
///
/// The first page says whether a database has such checksums: then each page has room for one at
/// its end. A new database has this room. There is no shared memory: connections must be in
/// exclusive mode.
class CheckedFiles {
public:
    /// `base`: the other VFS; null: SQLite's usual one.
    explicit CheckedFiles(const char* base);
    ~CheckedFiles();
    CheckedFiles(const CheckedFiles&) = delete;
    CheckedFiles& operator=(const CheckedFiles&) = delete;

    const char* vfs() const { return name_.c_str(); }

    /// Did the database that was read or written last have checksums?
    bool has_checksums() const { return has_checksums_; }

    /// May the database's first page have changed since the last call, as far as commits to the
    /// WAL tell?
    bool take_first_page_written() { return std::exchange(is_first_page_written_, !has_wal_); }

    /// The number of pages that were found damaged, including corrected ones. Any thread may call
    /// it.
    std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }

private:
    enum class Kind : std::uint8_t { other, database, wal };
    struct File {
        sqlite3_file as_sqlite;
        CheckedFiles* all;
        Kind kind;
        bool has_checksums;  ///< that can be compared
        const char* name;
        sqlite3_file* base() { return reinterpret_cast<sqlite3_file*>(this + 1); }
    };

    static CheckedFiles& of(sqlite3_vfs* vfs) { return *static_cast<CheckedFiles*>(vfs->pAppData); }
    static File& file(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
    static sqlite3_file* base(sqlite3_file* of) { return file(of).base(); }
    static int remove(sqlite3_vfs*, const char* name, int sync_folder);
    static int access(sqlite3_vfs*, const char* name, int flags, int* result);
    static int full_path(sqlite3_vfs*, const char* name, int size, char* out);
    static int open(sqlite3_vfs*, const char* name, sqlite3_file*, int flags, int* out_flags);
    static int read(sqlite3_file*, void* out, int size, sqlite3_int64 offset);
    static int write(sqlite3_file*, const void* data, int size, sqlite3_int64 offset);
    static const sqlite3_io_methods methods;

    void note_first_page(File& file, const unsigned char* page);
    static void note_wal_header(File& file, const void* header, int size);
    static void note_wal_write(File& file, const void* data, int size, sqlite3_int64 offset);
    int read_first_page(File& file, unsigned char* out, int size);
    void note_mended(File& file, const unsigned char* page, sqlite3_int64 offset);
    int check_database_page(File& file, unsigned char* bytes, sqlite3_int64 offset);
    int read_wal_page(File& file, unsigned char* out, sqlite3_int64 offset);
    int damaged_page(const File& file, sqlite3_int64 offset);

    sqlite3_vfs* const base_;
    const std::string name_;
    bool has_checksums_ = false;
    bool has_wal_ = false;
    bool is_first_page_written_ = true;
    std::atomic<std::uint64_t> damaged_{0};
    sqlite3_vfs vfs_;
};

}  // namespace pulsegate
