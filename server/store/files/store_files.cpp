#include "server/store/files/store_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace pulsegate {

namespace {

/// Does not ask for the file's times. After a process has seen them, Linux 6.13 gives the file
/// exact times at its next write, so each commit would also change the WAL's inode.
bool look_at_file(int at, const char* path, int flags, FileState& found) {
    struct statx about {};
    if (::statx(at, path, flags, STATX_INO | STATX_NLINK | STATX_SIZE, &about) != 0) return false;
    found = {.device = std::uint64_t{about.stx_dev_major} << 32 | about.stx_dev_minor,
             .inode = about.stx_ino,
             .links = about.stx_nlink,
             .size = about.stx_size};
    return true;
}

bool look_at_file(const UniqueFd& open, FileState& found) {
    return look_at_file(open.get(), "", AT_EMPTY_PATH, found);
}

bool look_at_file(const std::string& path, FileState& found) {
    return look_at_file(AT_FDCWD, path.c_str(), 0, found);
}

}  // namespace

StoreFiles::StoreFiles(const std::string& folder) {
    for (const char* name : {"/lock", "/pulsegate.db", "/pulsegate.db-wal"}) {
        File file{.path = folder + name, .open = {}, .state = {}};
        file.open = UniqueFd(::open(file.path.c_str(), O_PATH | O_CLOEXEC));
        if (!file.open || !look_at_file(file.open, file.state))
            throw std::runtime_error(
                fmt::format("can't use {}: {}", file.path, std::strerror(errno)));
        files_.push_back(std::move(file));
    }
}

const StoreFiles::Trouble& StoreFiles::look() {
    trouble_ = {};
    for (File& file : files_) look_at(file);
    return trouble_;
}

const StoreFiles::Trouble& StoreFiles::look_at_wal() {
    trouble_ = {};
    if (!files_.empty()) look_at(files_.back());
    return trouble_;
}

/// One system call is enough if the file's name still leads to the open file.
void StoreFiles::look_at(File& file) {
    FileState found;
    const bool has_name = look_at_file(file.path, found);
    const int error = errno;
    if (!has_name || !found.is_same_file(file.state)) {
        const bool is_known = look_at_file(file.open, found);
        const char* const what = !is_known ? "lost" : found.links == 0 ? "deleted" : "moved";
        if (trouble_.moved.empty())
            trouble_.moved =
                has_name ? fmt::format("{} was {}, and another file has its name", file.path, what)
                         : fmt::format("{} was {}: {}", file.path, what, std::strerror(error));
        if (!is_known) return;
    }
    if (found.size >= file.state.size)
        file.state.size = found.size;
    else if (trouble_.cut.empty())
        trouble_.cut =
            fmt::format("{} was cut from {} to {} bytes", file.path, file.state.size, found.size);
}

void StoreFiles::measure() {
    FileState found;
    for (File& file : files_)
        if (look_at_file(file.open, found)) file.state.size = found.size;
}

}  // namespace pulsegate
