#include "server/store/database/checked_files.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "server/base/log.h"
#include "server/store/pages/page_checksum.h"

namespace pulsegate {

namespace {

// A place in the first page of a database.
constexpr std::size_t reserved_place = 20;

// Sizes and places in a WAL: https://sqlite.org/walformat.html
constexpr sqlite3_int64 wal_header_size = 32;
constexpr sqlite3_int64 frame_header_size = 24;
constexpr sqlite3_int64 frame_size = frame_header_size + checked_page_size;
constexpr sqlite3_int64 header_checksum_place = 24;
constexpr sqlite3_int64 frame_checksum_place = 16;
constexpr std::uint32_t little_endian_wal = 0x377f0682;

std::string new_vfs_name() {
    static std::atomic<int> last{0};
    return "checked-" + std::to_string(++last);
}

std::uint32_t big_endian(const unsigned char* bytes) {
    std::uint32_t number = 0;
    for (int i = 0; i < 4; ++i) number = number << 8 | bytes[i];
    return number;
}

/// The checksum that SQLite stores in each frame. It continues from frame to frame.
struct WalChecksum {
    std::uint32_t first;
    std::uint32_t second;

    static WalChecksum stored(const unsigned char* bytes) {
        return {big_endian(bytes), big_endian(bytes + 4)};
    }
    void add(const unsigned char* bytes, std::size_t size) {
        for (std::size_t i = 0; i < size; i += 8) {
            std::array<std::uint32_t, 2> pair{};
            std::memcpy(pair.data(), bytes + i, sizeof pair);
            first += pair[0] + second;
            second += pair[1] + first;
        }
    }
    bool operator==(const WalChecksum&) const = default;
};

bool is_page(int size, sqlite3_int64 offset) {
    return size == static_cast<int>(checked_page_size) && offset % size == 0;
}

bool is_in_wal(int size, sqlite3_int64 offset) {
    return size == static_cast<int>(checked_page_size) &&
           (offset - wal_header_size) % frame_size == frame_header_size;
}

bool is_frame_header(int size, sqlite3_int64 offset) {
    return size == frame_header_size && (offset - wal_header_size) % frame_size == 0;
}

std::uint32_t page_number(sqlite3_int64 offset) {
    return static_cast<std::uint32_t>(offset / static_cast<sqlite3_int64>(checked_page_size)) + 1;
}

}  // namespace

CheckedFiles::CheckedFiles(const char* base)
    : base_(sqlite3_vfs_find(base)), name_(new_vfs_name()), vfs_(*base_) {
    vfs_.iVersion = std::min(base_->iVersion, 2);
    vfs_.szOsFile += static_cast<int>(sizeof(File));
    vfs_.pNext = nullptr;
    vfs_.zName = name_.c_str();
    vfs_.pAppData = this;
    vfs_.xOpen = open;
    vfs_.xDelete = remove;
    vfs_.xAccess = access;
    vfs_.xFullPathname = full_path;
    sqlite3_vfs_register(&vfs_, 0);
}

CheckedFiles::~CheckedFiles() { sqlite3_vfs_unregister(&vfs_); }

int CheckedFiles::remove(sqlite3_vfs* vfs, const char* name, int sync_folder) {
    return of(vfs).base_->xDelete(of(vfs).base_, name, sync_folder);
}

int CheckedFiles::access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
    return of(vfs).base_->xAccess(of(vfs).base_, name, flags, result);
}

int CheckedFiles::full_path(sqlite3_vfs* vfs, const char* name, int size, char* out) {
    return of(vfs).base_->xFullPathname(of(vfs).base_, name, size, out);
}

int CheckedFiles::open(sqlite3_vfs* vfs, const char* name, sqlite3_file* opened, int flags,
                       int* out_flags) {
    CheckedFiles& all = of(vfs);
    File& made = file(opened);
    made.all = &all;
    made.name = name;
    made.kind = (flags & SQLITE_OPEN_MAIN_DB) != 0 ? Kind::database
                : (flags & SQLITE_OPEN_WAL) != 0   ? Kind::wal
                                                   : Kind::other;
    all.has_wal_ |= made.kind == Kind::wal;
    const int result = all.base_->xOpen(all.base_, name, made.base(), flags, out_flags);
    opened->pMethods = made.base()->pMethods ? &methods : nullptr;
    if (result != SQLITE_OK) return result;
    sqlite3_int64 size = 0;
    made.base()->pMethods->xFileSize(made.base(), &size);
    made.has_checksums = size == 0;
    return SQLITE_OK;
}

int CheckedFiles::read(sqlite3_file* from, void* out, int size, sqlite3_int64 offset) {
    File& read = file(from);
    auto* const bytes = static_cast<unsigned char*>(out);
    if (read.kind == Kind::database && offset == 0)
        return read.all->read_first_page(read, bytes, size);
    if (read.kind == Kind::wal && is_in_wal(size, offset))
        return read.all->read_wal_page(read, bytes, offset);
    const int result = read.base()->pMethods->xRead(read.base(), out, size, offset);
    if (result != SQLITE_OK) return result;
    if (read.kind == Kind::wal && offset == 0) note_wal_header(read, out, size);
    if (read.kind == Kind::database && read.has_checksums && is_page(size, offset))
        return read.all->check_database_page(read, bytes, offset);
    return SQLITE_OK;
}

/// Reads all of the first page even if SQLite asks only for its beginning, because the page says
/// whether there are checksums. This is believed even if a power cut may have torn the page: then
/// the WAL has another version of the page.
int CheckedFiles::read_first_page(File& file, unsigned char* out, int size) {
    std::array<unsigned char, checked_page_size> page{};
    const int whole = static_cast<int>(page.size());
    int result = file.base()->pMethods->xRead(file.base(), page.data(), whole, 0);
    if (result != SQLITE_OK || size > whole)  // a short file, or a longer read
        return file.base()->pMethods->xRead(file.base(), out, size, 0);
    const bool is_mended = check_page(page, 1) == PageState::mended;
    note_first_page(file, page.data());
    if (is_mended) note_mended(file, page.data(), 0);
    if (file.has_checksums && size == whole) result = check_database_page(file, page.data(), 0);
    std::memcpy(out, page.data(), static_cast<std::size_t>(size));
    return result;
}

void CheckedFiles::note_first_page(File& file, const unsigned char* page) {
    file.has_checksums = has_checksums_ = page[reserved_place] == page_checksum_size;
}

int CheckedFiles::check_database_page(File& file, unsigned char* bytes, sqlite3_int64 offset) {
    const PageBytes page(bytes, checked_page_size);
    // A page that was freed before it was ever written has only zeros. It needs no checksum,
    // because SQLite rejects it if it is in use.
    const auto is_zero = [](unsigned char byte) { return byte == 0; };
    switch (check_page(page, page_number(offset))) {
        case PageState::sound: return SQLITE_OK;
        case PageState::mended: break;
        case PageState::damaged:
            return std::ranges::all_of(page, is_zero) ? SQLITE_OK : damaged_page(file, offset);
    }
    note_mended(file, bytes, offset);
    return SQLITE_OK;
}

void CheckedFiles::note_mended(File& file, const unsigned char* page, sqlite3_int64 offset) {
    damaged_.fetch_add(1, std::memory_order_relaxed);
    log_limited(spdlog::level::err, "a bit of page {} of {} was wrong, and was corrected",
                page_number(offset), file.name);
    // If this write fails, the bit is corrected again when the page is read again.
    file.base()->pMethods->xWrite(file.base(), page, checked_page_size, offset);
}

/// Reads the checksum of the frame before, this frame's header and its page at once.
int CheckedFiles::read_wal_page(File& file, unsigned char* out, sqlite3_int64 offset) {
    std::array<unsigned char, 2 * frame_size - frame_checksum_place> bytes{};
    const sqlite3_int64 frame = offset - frame_header_size;
    const sqlite3_int64 begin = frame == wal_header_size
                                    ? header_checksum_place
                                    : frame - frame_size + frame_checksum_place;
    const sqlite3_int64 end = frame + frame_size;
    const int result = file.base()->pMethods->xRead(file.base(), bytes.data(),
                                                    static_cast<int>(end - begin), begin);
    const unsigned char* const header = &bytes[static_cast<std::size_t>(frame - begin)];
    const unsigned char* const page = header + frame_header_size;
    std::memcpy(out, page, checked_page_size);
    if (result != SQLITE_OK || !file.has_checksums) return result;
    WalChecksum sum = WalChecksum::stored(bytes.data());
    sum.add(header, 8);
    sum.add(page, checked_page_size);
    return sum == WalChecksum::stored(header + frame_checksum_place) ? SQLITE_OK
                                                                     : damaged_page(file, offset);
}

/// Only checksums of little-endian words are compared. A log of a big-endian machine has others.
void CheckedFiles::note_wal_header(File& file, const void* header, int size) {
    if (size == wal_header_size)
        file.has_checksums =
            big_endian(static_cast<const unsigned char*>(header)) == little_endian_wal;
}

/// A frame of the WAL begins with the number of its page. Any other write may be the first page.
void CheckedFiles::note_wal_write(File& file, const void* data, int size, sqlite3_int64 offset) {
    if (offset == 0) note_wal_header(file, data, size);
    const bool is_other_page =
        is_in_wal(size, offset) ||
        (is_frame_header(size, offset) && big_endian(static_cast<const unsigned char*>(data)) != 1);
    if (!is_other_page) file.all->is_first_page_written_ = true;
}

int CheckedFiles::damaged_page(const File& file, sqlite3_int64 offset) {
    damaged_.fetch_add(1, std::memory_order_relaxed);
    log_limited(spdlog::level::err, "the page at byte {} of {} is damaged", offset, file.name);
    return SQLITE_IOERR_DATA;
}

int CheckedFiles::write(sqlite3_file* to, const void* data, int size, sqlite3_int64 offset) {
    File& written = file(to);
    sqlite3_file* const base = written.base();
    if (written.kind == Kind::wal) note_wal_write(written, data, size, offset);
    if (written.kind != Kind::database || !is_page(size, offset))
        return base->pMethods->xWrite(base, data, size, offset);
    std::array<unsigned char, checked_page_size> page{};
    std::memcpy(page.data(), data, page.size());
    if (offset == 0) written.all->note_first_page(written, page.data());
    if (written.has_checksums) seal_page(page, page_number(offset));
    return base->pMethods->xWrite(base, page.data(), size, offset);
}

const sqlite3_io_methods CheckedFiles::methods = {
    .iVersion = 1,  // without shared memory
    .xClose = [](sqlite3_file* of) { return base(of)->pMethods->xClose(base(of)); },
    .xRead = read,
    .xWrite = write,
    .xTruncate = [](sqlite3_file* of,
                    sqlite3_int64 size) { return base(of)->pMethods->xTruncate(base(of), size); },
    .xSync = [](sqlite3_file* of, int how) { return base(of)->pMethods->xSync(base(of), how); },
    .xFileSize = [](sqlite3_file* of,
                    sqlite3_int64* size) { return base(of)->pMethods->xFileSize(base(of), size); },
    .xLock = [](sqlite3_file* of, int lock) { return base(of)->pMethods->xLock(base(of), lock); },
    .xUnlock = [](sqlite3_file* of,
                  int lock) { return base(of)->pMethods->xUnlock(base(of), lock); },
    .xCheckReservedLock =
        [](sqlite3_file* of, int* result) {
            return base(of)->pMethods->xCheckReservedLock(base(of), result);
        },
    .xFileControl =
        [](sqlite3_file* of, int what, void* argument) {
            return base(of)->pMethods->xFileControl(base(of), what, argument);
        },
    .xSectorSize = [](sqlite3_file* of) { return base(of)->pMethods->xSectorSize(base(of)); },
    .xDeviceCharacteristics =
        [](sqlite3_file* of) { return base(of)->pMethods->xDeviceCharacteristics(base(of)); },
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

}  // namespace pulsegate
