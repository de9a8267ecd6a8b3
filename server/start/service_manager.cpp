#include "server/start/service_manager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "server/base/machine.h"
#include "server/settings/config.h"

namespace pulsegate {

namespace service {

void tell_ready() { ::sd_notify(0, "READY=1\nSTATUS=serving"); }

void tell_standing_by() { ::sd_notify(0, "READY=1\nSTATUS=standing by: another node serves"); }

/// With the time, which Type=notify-reload requires.
void tell_reloading() {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
    ::sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.count()).c_str());
}

void tell_stopping(const std::string& why) {
    ::sd_notify(0, fmt::format("STOPPING=1\nSTATUS={}", why).c_str());
}

void tell_main_process(pid_t process) {
    ::sd_notify(0, fmt::format("MAINPID={}", process).c_str());
}

bool ends_container() {
    constexpr std::string_view inits[] = {"catatonit", "docker-init", "dumb-init", "podman-init",
                                          "tini"};
    // If pods share a namespace of processes, the parent is outside of it.
    if (::getpid() == 1 || ::getppid() == 0) return true;
    if (::getppid() != 1) return false;
    std::ifstream first("/proc/1/comm");
    std::string name;
    std::getline(first, name);
    return std::ranges::find(inits, name) != std::end(inits);
}

void tell_alive() { ::sd_notify(0, "WATCHDOG=1"); }

Millis watchdog_interval() {
    std::uint64_t microseconds = 0;
    if (::sd_watchdog_enabled(0, &microseconds) <= 0) return 0;
    return static_cast<Millis>(microseconds / 1000);
}

KeptAlive::KeptAlive(std::chrono::milliseconds longest) {
    const Millis interval = watchdog_interval();
    if (interval == 0) return;
    tell_alive();
    const auto until = std::chrono::steady_clock::now() + longest;
    thread_ = std::thread([this, until, pause = std::chrono::milliseconds(interval / 2)] {
        name_thread("watchdog");
        std::unique_lock lock(mutex_);
        while (std::chrono::steady_clock::now() < until &&
               !ended_.wait_for(lock, pause, [this] { return has_ended_; }))
            tell_alive();
    });
}

KeptAlive::~KeptAlive() {
    {
        const std::lock_guard lock(mutex_);
        has_ended_ = true;
    }
    ended_.notify_one();
    if (thread_.joinable()) thread_.join();
}

void refuse_passed_sockets() {
    if (::sd_listen_fds(0) <= 0) return;
    throw ConfigError(
        "cluster: systemd holds the ports, and clients would wait at a node that stands by; run "
        "'systemctl disable --now pulsegate.socket'");
}

}  // namespace service

namespace {

/// False if it is not a TCP socket.
bool read_endpoint(int fd, InheritedSockets::Endpoint& endpoint) {
    auto size = static_cast<socklen_t>(endpoint.capacity());
    if (::getsockname(fd, endpoint.data(), &size) != 0) return false;
    const auto family = endpoint.data()->sa_family;
    if (family != AF_INET && family != AF_INET6) return false;
    endpoint.resize(size);
    return true;
}

}  // namespace

InheritedSockets::InheritedSockets(std::vector<PassedSocket> passed) {
    const int count = ::sd_listen_fds(1);
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
        Socket socket{.fd = UniqueFd(fd)};
        const bool listens = ::sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0;
        if (!listens || !read_endpoint(fd, socket.endpoint))
            throw ConfigError(
                fmt::format("listen: descriptor {} of systemd is not a listening TCP socket; name "
                            "ports only in the ListenStream= lines of its socket unit",
                            fd));
        sockets_.push_back(std::move(socket));
    }
    for (PassedSocket& each : passed) {
        Socket socket{.url = std::move(each.url), .fd = std::move(each.fd)};
        read_endpoint(socket.fd.get(), socket.endpoint);
        sockets_.push_back(std::move(socket));
    }
}

std::vector<UniqueFd> InheritedSockets::take(const std::string& url, const Endpoint& endpoint,
                                             std::size_t count) {
    std::vector<Socket*> found;
    for (Socket& each : sockets_)
        if (!url.empty() && each.url == url) found.push_back(&each);
    if (found.empty() && endpoint.port() != 0)
        for (Socket& each : sockets_)
            if (each.endpoint == endpoint) found.push_back(&each);
    std::vector<UniqueFd> taken;
    for (std::size_t i = 0; i < count && !found.empty(); ++i) {
        Socket& socket = *found[i % found.size()];
        socket.is_used = true;
        taken.emplace_back(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 0));
    }
    return taken;
}

std::vector<InheritedSockets::Endpoint> InheritedSockets::unused() const {
    std::vector<Endpoint> endpoints;
    for (const Socket& each : sockets_)
        if (!each.is_used && each.url.empty()) endpoints.push_back(each.endpoint);
    return endpoints;
}

}  // namespace pulsegate
