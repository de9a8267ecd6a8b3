#pragma once

#include <sys/socket.h>

#include <array>
#include <utility>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Two sockets of this machine that are connected with each other, and that do not block. Without
/// descriptors if there are none left; then `errno` says why.
inline std::pair<UniqueFd, UniqueFd> socket_pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
        return {};
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace pulsegate
