#pragma once

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <cstdint>
#include <random>
#include <string>

namespace pulsegate {

/// A port of loopback that is free, and that no other test gets while this object exists: a server
/// that will listen there may be restarted. tests/e2e/ports.py claims ports the same way.
class ClaimedPort {
public:
    ClaimedPort() {
        std::random_device chance;
        do {
            // Below the ports that the system gives to outgoing connections.
            number_ = std::uniform_int_distribution<std::uint16_t>(15'000, 31'999)(chance);
        } while (!claim());
    }

    std::uint16_t number() const { return number_; }

private:
    /// The name of a Unix socket without a file belongs to one process, and goes with it.
    bool claim() {
        using boost::asio::ip::tcp;
        boost::system::error_code error;
        name_.close();
        name_.open();
        name_.bind(std::string(1, '\0') + fmt::format("pulsegate-test-port-{}", number_), error);
        tcp::acceptor listener(io_, tcp::v4());
        listener.set_option(tcp::acceptor::reuse_address(true));
        if (!error) listener.bind({tcp::v4(), number_}, error);
        if (!error) listener.listen(1, error);
        return !error;
    }

    boost::asio::io_context io_;
    boost::asio::local::datagram_protocol::socket name_{io_};
    std::uint16_t number_ = 0;
};

}  // namespace pulsegate
