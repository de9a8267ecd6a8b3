#include "server/start/service_manager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "server/settings/config.h"

namespace pulsegate {

namespace service {

void tell_ready() { ::sd_notify(0, "READY=1"); }

/// With the time, as Type=notify-reload asks.
void tell_reloading() {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
    ::sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.count()).c_str());
}

void tell_stopping(const std::string& why) {
    ::sd_notify(0, fmt::format("STOPPING=1\nSTATUS={}", why).c_str());
}

void tell_alive() { ::sd_notify(0, "WATCHDOG=1"); }

Millis watchdog_interval() {
    std::uint64_t microseconds = 0;
    if (::sd_watchdog_enabled(0, &microseconds) <= 0) return 0;
    return static_cast<Millis>(microseconds / 1000);
}

}  // namespace service

InheritedSockets::InheritedSockets() {
    const int count = ::sd_listen_fds(1);
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
        UniqueFd owned(fd);
        Endpoint endpoint;
        auto size = static_cast<socklen_t>(endpoint.capacity());
        const bool listens = ::sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0;
        const bool is_ip =
            listens && ::getsockname(fd, endpoint.data(), &size) == 0 &&
            (endpoint.data()->sa_family == AF_INET || endpoint.data()->sa_family == AF_INET6);
        if (!is_ip)
            throw ConfigError(fmt::format(
                "listen: descriptor {} of systemd is no TCP socket that listens; name ports only "
                "in the ListenStream= lines of its socket unit",
                fd));
        endpoint.resize(size);
        sockets_.push_back({endpoint, std::move(owned)});
    }
}

bool InheritedSockets::has(const Endpoint& endpoint) const {
    return std::ranges::find(sockets_, endpoint, &Socket::endpoint) != sockets_.end();
}

UniqueFd InheritedSockets::take(const Endpoint& endpoint) {
    const auto found = std::ranges::find(sockets_, endpoint, &Socket::endpoint);
    if (found == sockets_.end()) return {};
    found->is_used = true;
    return UniqueFd(::fcntl(found->fd.get(), F_DUPFD_CLOEXEC, 0));
}

std::vector<InheritedSockets::Endpoint> InheritedSockets::unused() const {
    std::vector<Endpoint> endpoints;
    for (const Socket& each : sockets_)
        if (!each.is_used) endpoints.push_back(each.endpoint);
    return endpoints;
}

}  // namespace pulsegate
