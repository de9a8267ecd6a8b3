#include "tests/support/faulty_vfs.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace pulsegate {

namespace {

constexpr std::size_t sector = 512;

int nothing(sqlite3_file*, int) { return SQLITE_OK; }

int no_reserved_lock(sqlite3_file*, int* result) {
    *result = 0;
    return SQLITE_OK;
}

int no_control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }

// As SQLite's own VFS has it on Linux.
int sector_size(sqlite3_file*) { return 4096; }
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

std::string new_name() {
    static std::atomic<int> last{0};
    return "faulty-" + std::to_string(++last);
}

}  // namespace

const sqlite3_io_methods FaultyDisk::methods = {
    1,  // without shared memory
    close,      read,        write,
    truncate,   sync,        file_size,
    nothing,    nothing,     no_reserved_lock,
    no_control, sector_size, characteristics,
    nullptr,    nullptr,     nullptr,
    nullptr,    nullptr,     nullptr,
};

FaultyDisk::FaultyDisk(std::uint32_t seed) : random_(seed), name_(new_name()) {
    vfs_ = *sqlite3_vfs_find(nullptr);  // clock and random numbers
    vfs_.iVersion = 2;
    vfs_.szOsFile = sizeof(Handle);
    vfs_.pNext = nullptr;
    vfs_.zName = name_.c_str();
    vfs_.pAppData = this;
    vfs_.xOpen = open;
    vfs_.xDelete = remove;
    vfs_.xAccess = access;
    vfs_.xFullPathname = full_path;
    sqlite3_vfs_register(&vfs_, 0);
}

FaultyDisk::~FaultyDisk() { sqlite3_vfs_unregister(&vfs_); }

void FaultyDisk::copy(const FaultyDisk& other) {
    const std::scoped_lock lock(mutex_, other.mutex_);
    for (const auto& [name, file] : other.files_)
        files_[name] = std::make_shared<File>(File{file->written, file->written, {}});
}

std::uint64_t FaultyDisk::steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
}

std::uint64_t FaultyDisk::syncs() const {
    const std::lock_guard lock(mutex_);
    return syncs_;
}

std::size_t FaultyDisk::size(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(name);
    return found == files_.end() ? 0 : found->second->written.size();
}

void FaultyDisk::fail_at(std::uint64_t step, Fault fault, unsigned times) {
    const std::lock_guard lock(mutex_);
    fails_at_ = step;
    fault_ = fault;
    times_ = times;
}

bool FaultyDisk::dead() const {
    const std::lock_guard lock(mutex_);
    return dead_;
}

void FaultyDisk::cut_power() {
    const std::lock_guard lock(mutex_);
    lose_unsynced();
    dead_ = true;
}

void FaultyDisk::restart() {
    const std::lock_guard lock(mutex_);
    dead_ = false;
    times_ = 0;
}

void FaultyDisk::break_down(int code) {
    const std::lock_guard lock(mutex_);
    broken_ = code;
}

void FaultyDisk::break_file(const std::string& name, int code) {
    const std::lock_guard lock(mutex_);
    files_.at(name)->broken = code;
}

void FaultyDisk::mend() {
    const std::lock_guard lock(mutex_);
    broken_ = SQLITE_OK;
    for (auto& [name, file] : files_) file->broken = SQLITE_OK;
}

bool FaultyDisk::is_broken() const {
    const std::lock_guard lock(mutex_);
    return broken_ != SQLITE_OK;
}

void FaultyDisk::hold_syncs() {
    const std::lock_guard lock(mutex_);
    held_ = true;
}

void FaultyDisk::release_syncs() {
    {
        const std::lock_guard lock(mutex_);
        held_ = false;
    }
    changed_.notify_all();
}

void FaultyDisk::await_sync() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
}

/// The code with which this step ends, after the mutex was locked.
int FaultyDisk::step(Step what, File& file) {
    if (dead_) return SQLITE_IOERR;
    ++steps_;
    if (what == Step::sync) ++syncs_;
    if (broken_ != SQLITE_OK) return broken_;
    if (file.broken != SQLITE_OK) return file.broken;
    if (times_ == 0 || steps_ < fails_at_) return SQLITE_OK;
    return fail(what, file);
}

int FaultyDisk::fail(Step what, File& file) {
    if (fault_ == Fault::sync_error && what != Step::sync) return SQLITE_OK;
    if (fault_ == Fault::full && what != Step::write) return SQLITE_OK;
    --times_;
    switch (fault_) {
        case Fault::kill: dead_ = true; break;
        case Fault::torn_write: dead_ = tears_ = true; break;
        case Fault::power_cut:
            lose_unsynced();
            dead_ = true;
            break;
        case Fault::io_error: break;
        case Fault::full: return SQLITE_FULL;
        case Fault::sync_error: drop_unsynced(file); break;
    }
    switch (what) {
        case Step::write: return SQLITE_IOERR_WRITE;
        case Step::sync: return SQLITE_IOERR_FSYNC;
        case Step::truncate: break;
    }
    return SQLITE_IOERR_TRUNCATE;
}

/// As Linux does with pages that it could not write: they count as written from then on.
void FaultyDisk::drop_unsynced(File& file) {
    for (const std::size_t each : file.unsynced) {
        const std::size_t begin = each * sector;
        if (begin >= file.written.size()) continue;
        std::string kept = begin < file.synced.size() ? file.synced.substr(begin, sector) : "";
        kept.resize(std::min(sector, file.written.size() - begin));
        file.written.replace(begin, kept.size(), kept);
    }
    file.unsynced.clear();
}

void FaultyDisk::lose_unsynced() {
    const auto coin = [this] { return random_() % 2 == 0; };
    for (auto& [name, file] : files_) {
        std::string left = file->synced;
        if (coin()) left.resize(file->written.size());
        for (const std::size_t each : file->unsynced) {
            const std::size_t begin = each * sector;
            if (begin >= file->written.size() || coin()) continue;
            const std::string kept = file->written.substr(begin, sector);
            left.resize(std::max(left.size(), begin + kept.size()));
            left.replace(begin, kept.size(), kept);
        }
        file->written = file->synced = left;
        file->unsynced.clear();
    }
}

void FaultyDisk::store(File& file, std::string_view data, std::size_t offset) {
    if (data.empty()) return;
    const std::size_t end = offset + data.size();
    if (file.written.size() < end) file.written.resize(end);
    file.written.replace(offset, data.size(), data);
    for (std::size_t each = offset / sector; each <= (end - 1) / sector; ++each)
        file.unsynced.insert(each);
}

int FaultyDisk::open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
                     int* out_flags) {
    FaultyDisk& disk = of(vfs);
    const std::lock_guard lock(disk.mutex_);
    file->pMethods = nullptr;
    if (disk.dead_ || !name) return SQLITE_CANTOPEN;
    auto& found = disk.files_[name];
    if (!found) {
        if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
        found = std::make_shared<File>();
    }
    new (file) Handle{{&methods}, &disk, found};
    if (out_flags) *out_flags = flags;
    return SQLITE_OK;
}

int FaultyDisk::remove(sqlite3_vfs* vfs, const char* name, int) {
    FaultyDisk& disk = of(vfs);
    const std::lock_guard lock(disk.mutex_);
    if (disk.dead_) return SQLITE_IOERR_DELETE;
    return disk.files_.erase(name) > 0 ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
}

int FaultyDisk::access(sqlite3_vfs* vfs, const char* name, int, int* result) {
    FaultyDisk& disk = of(vfs);
    const std::lock_guard lock(disk.mutex_);
    if (disk.dead_) return SQLITE_IOERR_ACCESS;
    *result = disk.files_.contains(name) ? 1 : 0;
    return SQLITE_OK;
}

int FaultyDisk::full_path(sqlite3_vfs*, const char* name, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", name);
    return SQLITE_OK;
}

int FaultyDisk::close(sqlite3_file* file) {
    handle(file).~Handle();
    return SQLITE_OK;
}

int FaultyDisk::read(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
    const Handle& from = handle(file);
    const std::lock_guard lock(from.disk->mutex_);
    if (from.disk->dead_) return SQLITE_IOERR_READ;
    const std::string& written = from.file->written;
    const auto begin = std::min(static_cast<std::size_t>(offset), written.size());
    const auto wanted = static_cast<std::size_t>(size);
    const auto there = std::min(wanted, written.size() - begin);
    std::memcpy(out, written.data() + begin, there);
    std::memset(static_cast<char*>(out) + there, 0, wanted - there);
    return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int FaultyDisk::write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    const Handle& to = handle(file);
    const std::lock_guard lock(to.disk->mutex_);
    const int result = to.disk->step(Step::write, *to.file);
    const std::string_view all(static_cast<const char*>(data), static_cast<std::size_t>(size));
    if (result == SQLITE_OK) store(*to.file, all, static_cast<std::size_t>(offset));
    if (std::exchange(to.disk->tears_, false))
        store(*to.file, all.substr(0, all.size() / 2), static_cast<std::size_t>(offset));
    return result;
}

int FaultyDisk::truncate(sqlite3_file* file, sqlite3_int64 size) {
    const Handle& to = handle(file);
    const std::lock_guard lock(to.disk->mutex_);
    const int result = to.disk->step(Step::truncate, *to.file);
    if (result != SQLITE_OK) return result;
    File& cut = *to.file;
    const auto end = static_cast<std::size_t>(size);
    // If it grows again, these no longer have what was synced.
    for (auto each = end / sector; each * sector < cut.written.size(); ++each)
        cut.unsynced.insert(each);
    cut.written.resize(end);
    return SQLITE_OK;
}

int FaultyDisk::sync(sqlite3_file* file, int) {
    const Handle& what = handle(file);
    FaultyDisk& disk = *what.disk;
    std::unique_lock lock(disk.mutex_);
    ++disk.waiting_;
    if (disk.held_) disk.changed_.notify_all();
    disk.changed_.wait(lock, [&] { return !disk.held_; });
    --disk.waiting_;
    const int result = disk.step(Step::sync, *what.file);
    if (result != SQLITE_OK) return result;
    File& synced = *what.file;
    synced.synced.resize(synced.written.size());
    for (const std::size_t each : synced.unsynced) {
        const std::size_t begin = each * sector;
        if (begin >= synced.written.size()) continue;
        synced.synced.replace(begin, std::min(sector, synced.synced.size() - begin), synced.written,
                              begin, sector);
    }
    synced.unsynced.clear();
    return SQLITE_OK;
}

int FaultyDisk::file_size(sqlite3_file* file, sqlite3_int64* size) {
    const Handle& of = handle(file);
    const std::lock_guard lock(of.disk->mutex_);
    if (of.disk->dead_) return SQLITE_IOERR_FSTAT;
    *size = static_cast<sqlite3_int64>(of.file->written.size());
    return SQLITE_OK;
}

}  // namespace pulsegate
