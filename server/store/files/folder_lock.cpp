#include "server/store/files/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace pulsegate {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(const std::string& folder, std::string_view why) {
    throw std::runtime_error(
        fmt::format("can't keep data in {}: {}; --data names the folder, --data none keeps nothing",
                    folder, why));
}

std::string holder(int file) {
    std::array<char, 16> text{};
    const auto size = ::pread(file, text.data(), text.size(), 0);
    const std::string_view written(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    return std::string(written.substr(0, written.find('\n')));
}

bool is_file(const std::string& path, int file) {
    struct stat named {};
    struct stat opened {};
    return ::stat(path.c_str(), &named) == 0 && ::fstat(file, &opened) == 0 &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/// Denies other users access to the folder's files. The process creates no file that others may
/// read, but the folder and the database may be older than the process.
void keep_from_others(const std::string& folder) {
    constexpr auto others = fs::perms::others_all;
    std::error_code error;
    if ((fs::status(folder, error).permissions() & others) != fs::perms::none)
        spdlog::warn("data: every user of this machine can enter {}; chmod o-rwx {}", folder,
                     folder);
    for (const char* file : {"pulsegate.db", "pulsegate.db-wal", "pulsegate.db-shm"})
        fs::permissions(fs::path(folder) / file, others,
                        fs::perm_options::remove | fs::perm_options::nofollow, error);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
    if (::mkdir(folder.c_str(), 0750) != 0 && errno != EEXIST)
        refuse_folder(folder, std::strerror(errno));
    const std::string path = folder + "/lock";
    file_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (!file_) refuse_folder(folder, std::strerror(errno));
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
        refuse_folder(folder, fmt::format("process {} uses it", holder(file_.get())));
    enter(folder);
}

FolderLock::FolderLock(const std::string& folder, UniqueFd shared) : file_(std::move(shared)) {
    if (!is_file(folder + "/lock", file_.get()))
        refuse_folder(folder,
                      "the running process has its data in another folder; stop it, and start this "
                      "one instead");
    enter(folder);
}

UniqueFd FolderLock::share() const { return UniqueFd(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0)); }

/// Writes the process id for processes that are kept out.
void FolderLock::enter(const std::string& folder) {
    const std::string pid = std::to_string(::getpid()) + '\n';
    if (::ftruncate(file_.get(), 0) != 0 ||
        ::pwrite(file_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
        refuse_folder(folder, std::strerror(errno));
    keep_from_others(folder);
}

}  // namespace pulsegate
