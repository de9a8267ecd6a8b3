#include "server/base/files/local_socket_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <filesystem>

namespace pulsegate {

namespace {

[[noreturn]] void fail(int error) {
    throw boost::system::system_error(error, boost::system::system_category());
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
    using boost::asio::local::stream_protocol;
    boost::asio::io_context context;
    stream_protocol::socket probe(context);
    boost::system::error_code error;
    probe.connect(stream_protocol::endpoint(short_path_), error);
    if (!error) fail(EADDRINUSE);
    if (::unlink(short_path_.c_str()) != 0) fail(errno);
}

}  // namespace pulsegate
