#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Tells systemd how the process does (sd_notify(3)). Without systemd the calls do nothing.
namespace service {

void tell_ready();
void tell_reloading();
/// `why` is shown by `systemctl status`.
void tell_stopping(const std::string& why);
/// It is alive: to be called every half of `watchdog_interval`.
void tell_alive();

/// After so long without a `tell_alive` systemd ends the process (sd_watchdog_enabled(3)); 0: it
/// does not watch.
Millis watchdog_interval();

}  // namespace service

/// Sockets that listen already when the process starts (sd_listen_fds(3)), and go on when it ends,
/// so that no connection is refused while the gateway is restarted.
class InheritedSockets {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// Takes all that systemd passes to this process, and `passed`. Throws ConfigError about one of
    /// systemd's that is not a TCP socket.
    explicit InheritedSockets(std::vector<PassedSocket> passed = {});

    bool has(const Endpoint& endpoint) const;
    /// The socket that listens at the endpoint, as another descriptor for it, or none.
    UniqueFd take(const Endpoint& endpoint);

    /// Where sockets listen that no one has taken.
    std::vector<Endpoint> unused() const;

private:
    struct Socket {
        Endpoint endpoint;
        UniqueFd fd;
        bool is_used = false;
    };
    std::vector<Socket> sockets_;
};

}  // namespace pulsegate
