#include "server/store/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace pulsegate {

namespace {

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

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
    if (::mkdir(folder.c_str(), 0750) != 0 && errno != EEXIST)
        refuse_folder(folder, std::strerror(errno));
    const std::string path = folder + "/lock";
    file_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (!file_) refuse_folder(folder, std::strerror(errno));
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
        refuse_folder(folder, fmt::format("process {} uses it", holder(file_.get())));
    const std::string pid = std::to_string(::getpid()) + '\n';
    if (::ftruncate(file_.get(), 0) != 0 ||
        ::pwrite(file_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
        refuse_folder(folder, std::strerror(errno));
}

}  // namespace pulsegate
