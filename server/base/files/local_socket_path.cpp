#include "server/base/files/local_socket_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <filesystem>

namespace pulsegate {

namespace {

[[noreturn]] void fail(int error) {
    throw boost::system::system_error(error, boost::system::system_category());
}

bool is_listened_at(const std::string& path) {
    const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probe) fail(errno);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    if (path.size() >= sizeof(address.sun_path)) fail(ENAMETOOLONG);
    path.copy(address.sun_path, path.size());
    return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
           0;
}

}  // namespace

LocalSocketPath::LocalSocketPath(const std::string& path) {
    const std::filesystem::path whole = std::filesystem::absolute(path);
    folder_ = UniqueFd(::open(whole.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) fail(errno);
    short_path_ = fmt::format("/proc/self/fd/{}/{}", folder_.get(), whole.filename().string());
}

void LocalSocketPath::remove_leftover() const {
    struct stat found {};
    if (::lstat(short_path_.c_str(), &found) != 0) {
        if (errno == ENOENT) return;
        fail(errno);
    }
    if (!S_ISSOCK(found.st_mode)) fail(EEXIST);
    if (is_listened_at(short_path_)) fail(EADDRINUSE);
    if (::unlink(short_path_.c_str()) != 0) fail(errno);
}

}  // namespace pulsegate
