#include "server/cluster/link/link_settings.h"

#include <fmt/format.h>

#include <boost/asio/ssl/context.hpp>
#include <charconv>
#include <cstdint>
#include <stdexcept>

namespace pulsegate {

namespace {

namespace ssl = boost::asio::ssl;

void check_link_file(const boost::system::error_code& error, std::string_view setting,
                     const std::string& file) {
    if (error)
        throw std::runtime_error(
            fmt::format("{}: {}: {}; name a readable PEM file", setting, file, error.message()));
}

}  // namespace

std::pair<std::string, std::string> split_link_address(std::string_view address) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string_view::npos) return {};
    std::string_view host = address.substr(0, colon);
    const std::string_view port = address.substr(colon + 1);
    std::uint16_t number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size()) return {};
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host.empty()) return {};
    return {std::string(host), std::string(port)};
}

boost::asio::ip::tcp::endpoint link_endpoint(const LinkSettings& settings) {
    const auto [host, port] = split_link_address(settings.listen);
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    if (host.empty() || error)
        throw std::runtime_error(fmt::format(
            "link-listen: {} is not an address; write it as 127.0.0.1:7883", settings.listen));
    if (!settings.has_tls() && !address.is_loopback())
        throw std::runtime_error(
            fmt::format("link-listen: other machines can reach {}, so the link needs certificates; "
                        "set link-cert, link-key and link-ca",
                        settings.listen));
    return {address, static_cast<std::uint16_t>(std::stoi(port))};
}

std::shared_ptr<ssl::context> link_tls(const LinkSettings& settings) {
    if (settings.certificate.empty() != settings.key.empty() ||
        settings.certificate.empty() != settings.authorities.empty())
        throw std::runtime_error("link-cert, link-key and link-ca belong together; set all three");
    if (!settings.has_tls()) return nullptr;
    auto context = std::make_shared<ssl::context>(ssl::context::tlsv13);
    boost::system::error_code error;
    context->use_certificate_chain_file(settings.certificate, error);
    check_link_file(error, "link-cert", settings.certificate);
    context->use_private_key_file(settings.key, ssl::context::pem, error);
    check_link_file(error, "link-key", settings.key);
    context->load_verify_file(settings.authorities, error);
    check_link_file(error, "link-ca", settings.authorities);
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
    return context;
}

}  // namespace pulsegate
