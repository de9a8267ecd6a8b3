#include "server/base/files/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

namespace {

std::runtime_error unreadable(const std::string& path) {
    return std::runtime_error(
        fmt::format("{}: can't be read: {}; name a readable file", path, std::strerror(errno)));
}

/// Waits until the pipe has data, or all writers have closed it. A pipe without a writer must not
/// block the gateway.
short await_writer(const UniqueFd& pipe, const std::string& path) {
    constexpr int patience = 3000;  // ms
    pollfd event{.fd = pipe.get(), .events = POLLIN, .revents = 0};
    if (::poll(&event, 1, patience) < 1)
        throw std::runtime_error(path + ": is a pipe that nobody writes to; name a file");
    return event.revents;
}

}  // namespace

WholeFile read_whole_file(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file) throw unreadable(path);
    struct stat about {};
    if (::fstat(file.get(), &about) != 0) throw unreadable(path);
    // A pipe can be read only once. At a reload it is empty, and this must not remove all users.
    if (S_ISFIFO(about.st_mode) && (await_writer(file, path) & POLLIN) == 0)
        throw std::runtime_error(path + ": is a pipe that was read before; name a file");

    WholeFile whole{.text = "", .mode = about.st_mode};
    char block[16 * 1024];
    for (;;) {
        const auto size = ::read(file.get(), block, sizeof block);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) {
            await_writer(file, path);
            continue;
        }
        if (size < 0) throw unreadable(path);
        if (size == 0) return whole;
        whole.text.append(block, static_cast<std::size_t>(size));
    }
}

WholeFile read_whole_file(std::string_view setting, const std::string& path) {
    try {
        return read_whole_file(path);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("{}: {}", setting, error.what()));
    }
}

}  // namespace pulsegate
