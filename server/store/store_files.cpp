#include "server/store/store_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace pulsegate {

namespace {

off_t size_of(const UniqueFd& open) {
    struct stat found {};
    return ::fstat(open.get(), &found) == 0 ? found.st_size : 0;
}

/// Of the file that is open, compared with the one that has its name now.
std::string moved(const std::string& path, const UniqueFd& open) {
    struct stat opened {};
    struct stat named {};
    if (::fstat(open.get(), &opened) != 0)
        return fmt::format("{} can't be looked at: {}", path, std::strerror(errno));
    const char* const what = opened.st_nlink == 0 ? "deleted" : "moved";
    if (::stat(path.c_str(), &named) != 0)
        return fmt::format("{} was {}: {}", path, what, std::strerror(errno));
    if (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino)
        return fmt::format("{} was {}, and another file has its name", path, what);
    return "";
}

}  // namespace

StoreFiles::StoreFiles(const std::string& folder) {
    for (const char* name : {"/lock", "/pulsegate.db", "/pulsegate.db-wal"}) {
        std::string path = folder + name;
        UniqueFd open(::open(path.c_str(), O_PATH | O_CLOEXEC));
        if (!open)
            throw std::runtime_error(fmt::format("can't use {}: {}", path, std::strerror(errno)));
        files_.push_back({std::move(path), std::move(open)});
    }
    measure();
}

std::string StoreFiles::moved() const {
    for (const File& file : files_)
        if (std::string found = pulsegate::moved(file.path, file.open); !found.empty())
            return found;
    return "";
}

std::string StoreFiles::cut() {
    for (File& file : files_) {
        const off_t size = size_of(file.open);
        if (size < file.size)
            return fmt::format("{} was cut from {} to {} bytes", file.path, file.size, size);
        file.size = size;
    }
    return "";
}

void StoreFiles::measure() {
    for (File& file : files_) file.size = size_of(file.open);
}

}  // namespace pulsegate
