#include "server/web/web_origin.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>

namespace pulsegate {

namespace {

bool equal(std::string_view a, std::string_view b) {
    const auto lower = [](unsigned char c) { return std::tolower(c); };
    return std::ranges::equal(a, b, {}, lower, lower);
}

/// `host:port`, `host` or `[::1]:port` without the port.
std::string_view without_port(std::string_view authority) {
    const auto bracket = authority.find(']');
    if (bracket != authority.npos) return authority.substr(0, bracket + 1);
    return authority.substr(0, authority.find(':'));
}

/// RFC 3986, section 3.2.2. For a name it only checks that each character is allowed in names.
bool is_host(std::string_view host) {
    constexpr std::string_view others = "-._~%!$&'()*+,;=";
    const auto is_of_name = [&](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || others.find(c) != others.npos;
    };
    if (!host.starts_with('[')) return !host.empty() && std::ranges::all_of(host, is_of_name);
    if (!host.ends_with(']')) return false;
    boost::system::error_code error;
    boost::asio::ip::make_address_v6(host.substr(1, host.size() - 2), error);
    return !error;
}

}  // namespace

bool is_authority(std::string_view text) {
    const auto host = without_port(text);
    if (!is_host(host)) return false;
    const auto port = text.substr(host.size());
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return port.empty() || (port.front() == ':' && std::ranges::all_of(port.substr(1), is_digit));
}

bool origin_allowed(std::string_view origin, std::string_view host,
                    const std::vector<std::string>& allowed) {
    if (origin.empty()) return true;
    if (!allowed.empty())
        return std::ranges::any_of(
            allowed, [&](const std::string& one) { return one == "*" || equal(one, origin); });
    const auto scheme = origin.find("://");
    // "null" stands for a page without an origin of its own, such as a file or a sandboxed frame.
    return scheme != origin.npos && !host.empty() &&
           equal(without_port(origin.substr(scheme + 3)), without_port(host));
}

bool is_loopback_host(std::string_view host) {
    host = without_port(host);
    if (equal(host, "localhost")) return true;
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    return !error && address.is_loopback();
}

}  // namespace pulsegate
