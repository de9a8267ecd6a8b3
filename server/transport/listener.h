#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>

#include "server/base/files/unique_fd.h"
#include "server/limits/admission.h"
#include "server/loop/rounds.h"

namespace pulsegate {

/// Accepts TCP connections for one shard, on its thread, and counts them in the admission. Every
/// shard listens on the same address, and the kernel spreads new connections among them
/// (SO_REUSEPORT). It owns its own socket. The accepted sockets belong to the function that it
/// calls.
class Listener {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// What a listener for IPv6 does with clients of IPv4.
    enum class Ipv4 : std::uint8_t {
        accepted,  ///< at `::`, with addresses that are mapped to IPv6
        left_out,  ///< the port belongs to another listener for IPv4
    };

    using Accepted = std::function<void(UniqueFd socket, const Endpoint& peer)>;

    /// Throws boost::system::system_error if the address is not available.
    Listener(Rounds& rounds, const Endpoint& endpoint, Ipv4 ipv4, Admission& admission,
             Accepted accepted);
    /// With a socket that already listens, and that all shards share.
    Listener(Rounds& rounds, const Endpoint& endpoint, UniqueFd inherited, Admission& admission,
             Accepted accepted);

    /// Throws if another program listens there: SO_REUSEPORT would silently share the port with it.
    static void check_free(const Endpoint& endpoint, Ipv4 ipv4);

    Endpoint endpoint() const { return acceptor_.local_endpoint(); }
    int socket() { return acceptor_.native_handle(); }

    /// Accepts no connection until `tick`.
    void rest() { rests_ = true; }

    /// Call it once a second: it continues after descriptors had run out.
    void tick();

    void stop();

private:
    void wait();
    void accept_some();
    int accepts_now();

    Rounds& rounds_;
    boost::asio::ip::tcp::acceptor acceptor_;
    Admission& admission_;
    Accepted accepted_;
    std::uint64_t last_round_ = 0;  ///< the last round in which connections were accepted
    bool paused_ = false;
    bool rests_ = false;  ///< until `tick`
};

}  // namespace pulsegate
