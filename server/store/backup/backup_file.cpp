#include "server/store/backup/backup_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "server/store/database/schema.h"

namespace pulsegate {

namespace {

/// Places in the header of a database file (sqlite.org/fileformat.html, 1.3).
constexpr std::size_t header_size = 100;
constexpr std::size_t id_place = 68;

std::string cannot_write(const std::string& path) {
    return fmt::format("can't write {}: {}", path, std::strerror(errno));
}

}  // namespace

bool BackupFile::may_be_replaced(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) return errno == ENOENT;
    char header[header_size] = {};
    const auto size = ::read(file.get(), header, sizeof header);
    const std::string_view id(header + id_place, sizeof application_id);
    return size == 0 || (size == header_size && id == "PGAT");
}

BackupFile::~BackupFile() {
    if (fd_) remove();
}

/// Deletes the incomplete file, and the files that SQLite may have created beside it.
void BackupFile::remove() {
    for (const char* suffix : {"", "-wal", "-journal"}) ::unlink((part_ + suffix).c_str());
}

std::string BackupFile::create() {
    if (!may_be_replaced(part_)) return fmt::format("{} exists, and is not a backup", part_);
    remove();
    fd_ = UniqueFd(::open(part_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
    return fd_ ? "" : cannot_write(part_);
}

std::string BackupFile::sync() { return ::fdatasync(fd_.get()) == 0 ? "" : cannot_write(part_); }

std::string BackupFile::publish() {
    if (std::rename(part_.c_str(), file_.c_str()) != 0) return cannot_write(file_);
    fd_ = UniqueFd();
    const std::string folder = std::filesystem::path(file_).parent_path();
    const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return opened && ::fsync(opened.get()) == 0 ? "" : cannot_write(folder);
}

std::uint64_t BackupFile::bytes() const {
    struct stat about {};
    return ::fstat(fd_.get(), &about) == 0 ? static_cast<std::uint64_t>(about.st_size) : 0;
}

}  // namespace pulsegate
