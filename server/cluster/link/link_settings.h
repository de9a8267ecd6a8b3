#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace boost::asio::ssl {
class context;
}

namespace pulsegate {

struct LinkSettings {
    std::string listen = "127.0.0.1:7883";
    std::string address{};      ///< the address for other nodes; "": the address where it listens
    std::string certificate{};  ///< PEM files; all three are set, or none
    std::string key{};
    std::string authorities{};  ///< every certificate that they signed belongs to a node

    bool has_tls() const { return !certificate.empty(); }
};

/// Host and port of "10.0.0.1:7883", "[::1]:7883" or "west.example:7883"; both empty if it is
/// neither.
std::pair<std::string, std::string> split_link_address(std::string_view address);

/// Where to listen. Throws std::runtime_error with the remedy, also if the address is not loopback
/// and there are no certificates.
boost::asio::ip::tcp::endpoint link_endpoint(const LinkSettings& settings);

/// The TLS context for both ends of a link. Each end shows a certificate, and asks the other for
/// one. Null without certificates. Throws std::runtime_error that names the file.
std::shared_ptr<boost::asio::ssl::context> link_tls(const LinkSettings& settings);

}  // namespace pulsegate
