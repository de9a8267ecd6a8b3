#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Tells systemd the state of the process (sd_notify(3)). Without systemd the calls do nothing.
namespace service {

void tell_ready();
/// The process has started, and waits until it may serve.
void tell_standing_by();
void tell_reloading();
/// `systemctl status` shows `why`.
void tell_stopping(const std::string& why);
/// Another process is the service from now on, and this one ends.
void tell_main_process(pid_t process);
/// Tells that the process is alive. Call it every half of `watchdog_interval`.
void tell_alive();

/// Would the container end with this process, because it is the first one there, or the child of an
/// init that waits for it only?
bool ends_container();

/// The time without `tell_alive` after which systemd ends the process (sd_watchdog_enabled(3)); 0:
/// it does not watch.
Millis watchdog_interval();

/// Tells systemd that the process is alive while it loads data, which may take longer than the
/// watchdog waits. A start does not need this, because systemd does not watch a process before it
/// is ready.
class KeptAlive {
public:
    /// Tells it for the longest time at most: what takes longer hangs.
    explicit KeptAlive(std::chrono::milliseconds longest = std::chrono::hours(24));
    ~KeptAlive();
    KeptAlive(const KeptAlive&) = delete;
    KeptAlive& operator=(const KeptAlive&) = delete;

private:
    std::mutex mutex_;
    std::condition_variable ended_;
    bool has_ended_ = false;
    std::thread thread_;
};

/// Throws ConfigError if systemd passes listening sockets to this process, for a node of a cluster:
/// connections would wait in the sockets of a node that stands by.
void refuse_passed_sockets();

}  // namespace service

/// A socket that another process has listened on.
struct PassedSocket {
    std::string url{};  ///< the URL as it was configured; the port may be 0
    UniqueFd fd{};
};

/// Sockets that listen before the process starts and after it ends, so no connection is refused
/// while the gateway restarts. They come from systemd (sd_listen_fds(3)), or from the process that
/// this one takes over from.
class InheritedSockets {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// Takes `passed` and all sockets that systemd passes to this process. Throws ConfigError if
    /// one of systemd's is not a TCP socket.
    explicit InheritedSockets(std::vector<PassedSocket> passed = {});

    /// Returns that many descriptors of sockets for the URL or at its endpoint. If there are too
    /// few sockets, it duplicates some. Empty if there are none.
    std::vector<UniqueFd> take(const std::string& url, const Endpoint& endpoint, std::size_t count);

    /// The endpoints of systemd's sockets that were not taken.
    std::vector<Endpoint> unused() const;

private:
    struct Socket {
        std::string url{};  ///< "": from systemd
        Endpoint endpoint{};
        UniqueFd fd{};
        bool is_used = false;
    };
    std::vector<Socket> sockets_;
};

}  // namespace pulsegate
