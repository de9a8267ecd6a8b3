#pragma once

#include <sqlite3.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>

namespace pulsegate {

/// A disk in memory, as a VFS for SQLite, that fails when it is told to. Of each file it knows what
/// was written, and what would be left after a power cut: all that was synced, and some of the
/// 512-byte sectors that were written since. It has no shared memory and no locks: connections must
/// be in exclusive mode. Any thread.
class FaultyDisk {
public:
    enum class Fault {
        kill,        ///< the process ends: nothing works any more, and what was written stays
        torn_write,  ///< the same in the middle of a write
        io_error,    ///< one failure
        full,        ///< no room for the next writes
        sync_error,  ///< the next syncs fail, and what was written since the last one is gone
        power_cut,   ///< nothing works any more, and what was not synced is partly gone
    };

    explicit FaultyDisk(std::uint32_t seed = 1);
    ~FaultyDisk();
    FaultyDisk(const FaultyDisk&) = delete;
    FaultyDisk& operator=(const FaultyDisk&) = delete;

    /// Begins with the files of another disk, as they would be after it was synced.
    void copy(const FaultyDisk& other);

    /// The name of the VFS.
    const char* vfs() const { return name_.c_str(); }

    /// Writes, syncs and truncations so far.
    std::uint64_t steps() const;
    std::uint64_t syncs() const;

    /// Bytes of a file, 0 if there is none.
    std::size_t size(const std::string& name) const;

    /// At that step, or for a sync_error at the next sync; `times` for `full` and `sync_error`.
    void fail_at(std::uint64_t step, Fault fault, unsigned times = 1);
    bool dead() const;

    /// The machine is switched off now.
    void cut_power();
    /// The process starts again. No fault is planned any more.
    void restart();

    /// Until `mend` all writes fail with this SQLite code, and syncs too.
    void break_down(int code);
    /// The same for one file.
    void break_file(const std::string& name, int code);
    void mend();
    bool is_broken() const;

    /// Syncs wait until `release_syncs`.
    void hold_syncs();
    void release_syncs();
    /// Waits until a sync waits.
    void await_sync();

private:
    struct File {
        std::string written;
        std::string synced;
        std::set<std::size_t> unsynced;  ///< sectors
        int broken = SQLITE_OK;
    };
    struct Handle {
        sqlite3_file base;
        FaultyDisk* disk;
        std::shared_ptr<File> file;
    };
    enum class Step { write, sync, truncate };

    static FaultyDisk& of(sqlite3_vfs* vfs) { return *static_cast<FaultyDisk*>(vfs->pAppData); }
    static Handle& handle(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
    static int open(sqlite3_vfs*, const char* name, sqlite3_file*, int flags, int* out_flags);
    static int remove(sqlite3_vfs*, const char* name, int);
    static int access(sqlite3_vfs*, const char* name, int flags, int* result);
    static int full_path(sqlite3_vfs*, const char* name, int size, char* out);
    static int close(sqlite3_file*);
    static int read(sqlite3_file*, void* out, int size, sqlite3_int64 offset);
    static int write(sqlite3_file*, const void* data, int size, sqlite3_int64 offset);
    static int truncate(sqlite3_file*, sqlite3_int64 size);
    static int sync(sqlite3_file*, int flags);
    static int file_size(sqlite3_file*, sqlite3_int64* size);
    static const sqlite3_io_methods methods;

    int step(Step what, File& file);
    int fail(Step what, File& file);
    static void drop_unsynced(File& file);
    void lose_unsynced();
    static void store(File& file, std::string_view data, std::size_t offset);

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::shared_ptr<File>> files_;
    std::mt19937 random_;
    std::uint64_t steps_ = 0;
    std::uint64_t syncs_ = 0;
    std::uint64_t fails_at_ = 0;
    unsigned times_ = 0;  ///< how often it still fails
    Fault fault_ = Fault::kill;
    bool dead_ = false;
    bool tears_ = false;  ///< the write that runs now is the last one, and only half of it is done
    int broken_ = SQLITE_OK;
    bool held_ = false;
    unsigned waiting_ = 0;  ///< syncs that wait
    std::string name_;
    sqlite3_vfs vfs_;
};

}  // namespace pulsegate
