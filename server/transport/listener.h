#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>

#include "server/base/unique_fd.h"
#include "server/limits/admission.h"

namespace pulsegate {

/// Accepts TCP connections for one shard, on its thread, and counts them in the admission. Every
/// shard listens on the same address, and the kernel spreads new connections among them
/// (SO_REUSEPORT). It owns its own socket; those that it accepts belong to the function that it
/// calls.
class Listener {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// Throws boost::system::system_error when the address can't be had.
    Listener(boost::asio::io_context& io, const Endpoint& endpoint, Admission& admission,
             std::function<void(UniqueFd socket, const Endpoint& peer)> accepted);

    /// Throws if somebody listens there already: SO_REUSEPORT would share the port with them in
    /// silence.
    static void check_free(boost::asio::io_context& io, const Endpoint& endpoint);

    Endpoint endpoint() const { return acceptor_.local_endpoint(); }

    /// Once a second: goes on after descriptors had run out.
    void tick();

    void stop();

private:
    void wait();
    void accept_some();

    boost::asio::ip::tcp::acceptor acceptor_;
    Admission& admission_;
    std::function<void(UniqueFd, const Endpoint&)> accepted_;
    bool paused_ = false;
};

}  // namespace pulsegate
