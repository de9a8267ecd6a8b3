#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Tells systemd how the process does (sd_notify(3)). Without systemd the calls do nothing.
namespace service {

void tell_ready();
/// The process has started, and waits until it may serve.
void tell_standing_by();
void tell_reloading();
/// `why` is shown by `systemctl status`.
void tell_stopping(const std::string& why);
/// Another process is the service from now on; this one ends.
void tell_main_process(pid_t process);
/// It is alive: to be called every half of `watchdog_interval`.
void tell_alive();

/// After so long without a `tell_alive` systemd ends the process (sd_watchdog_enabled(3)); 0: it
/// does not watch.
Millis watchdog_interval();

/// Tells systemd that the process is alive while it loads data, which may take longer than the
/// watchdog waits. A start needs none, because systemd does not watch a process before it is ready.
class KeptAlive {
public:
    KeptAlive();
    ~KeptAlive();
    KeptAlive(const KeptAlive&) = delete;
    KeptAlive& operator=(const KeptAlive&) = delete;

private:
    std::mutex mutex_;
    std::condition_variable ended_;
    bool has_ended_ = false;
    std::thread thread_;
};

}  // namespace service

/// A socket that another process has listened on.
struct PassedSocket {
    std::string url{};  ///< by which it was asked for; the port may be 0
    UniqueFd fd{};
};

/// Sockets that listen already when the process starts, and go on when it ends, so that no
/// connection is refused while the gateway is restarted: those of systemd (sd_listen_fds(3)), and
/// those of the process that this one takes over from.
class InheritedSockets {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// Takes all that systemd passes to this process, and `passed`. Throws ConfigError about one of
    /// systemd's that is not a TCP socket.
    explicit InheritedSockets(std::vector<PassedSocket> passed = {});

    /// So many descriptors of sockets that listen for the URL or at its endpoint, each socket once
    /// if there are enough of them, and again if not. Empty: there is none.
    std::vector<UniqueFd> take(const std::string& url, const Endpoint& endpoint, std::size_t count);

    /// Where sockets of systemd listen that no one has taken.
    std::vector<Endpoint> unused() const;

private:
    struct Socket {
        std::string url{};  ///< "": it is systemd's
        Endpoint endpoint{};
        UniqueFd fd{};
        bool is_used = false;
    };
    std::vector<Socket> sockets_;
};

}  // namespace pulsegate
