#include "server/start/listen_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "server/transport/tls/tls.h"

namespace pulsegate {

using boost::asio::ip::tcp;

tcp::endpoint resolve(const ListenUrl& url) {
    boost::asio::io_context io;
    boost::system::error_code error;
    const auto found = tcp::resolver(io).resolve(url.host, std::to_string(url.port),
                                                 tcp::resolver::passive, error);
    if (error || found.empty())
        throw ConfigError(
            fmt::format("listen: {}: no such host; write an address of this machine, "
                        "such as 127.0.0.1 or 0.0.0.0",
                        url.text()));
    return *found.begin();
}

bool excludes(const ListenUrl& one, const ListenUrl& other) {
    if (one.port != other.port) return false;
    const auto a = resolve(one).address();
    const auto b = resolve(other).address();
    return a.is_v4() == b.is_v4() && (a == b || a.is_unspecified() || b.is_unspecified());
}

bool has_port_for_ipv4(const ListenUrl& url, const std::vector<ListenUrl>& all) {
    return url.port != 0 && std::ranges::any_of(all, [&](const ListenUrl& other) {
               return other.port == url.port && resolve(other).address().is_v4();
           });
}

bool is_public(const ListenUrl& url, const tcp::endpoint& endpoint) {
    return !endpoint.address().is_loopback() || url.proxy_protocol;
}

bool authenticates_clients(const Config& config, const ListenUrl& url) {
    if (!url.for_clients()) return config.has_admin_tokens();
    const AuthenticatorSettings& by = config.authenticator;
    if (url.has_tls() && !config.tls.client_ca.empty()) return true;
    return by.checks_logins() && !by.allow_anonymous;
}

void check_public(const Config& config, const ListenUrl& url, const tcp::endpoint& endpoint) {
    if (!is_public(url, endpoint) || authenticates_clients(config, url)) return;
    if (!url.for_clients()) throw ConfigError(admin_is_public(url));
    if (config.authenticator.allow_anonymous) return;
    throw ConfigError(
        fmt::format("listen: {}: reachable from outside{}, and clients are not authenticated; name "
                    "a --password-file, a --jwt-secret, a --jwt-key, a --jwt-jwks-url or an "
                    "--auth-hook, listen on 127.0.0.1 without a proxy, or say --allow-anonymous",
                    url.text(), url.proxy_protocol ? " through the proxy" : ""));
}

bool admin_has_tls(const Config& config) {
    return std::ranges::any_of(
        config.listen, [](const ListenUrl& url) { return !url.for_clients() && url.has_tls(); });
}

std::function<SSL*()> admin_tls_sessions(const Config& config) {
    Tls::Settings settings = config.tls;
    settings.client_ca.clear();
    settings.client_crl.clear();
    return [tls = std::make_shared<const Tls>(settings)] { return tls->new_session(); };
}

std::string admin_is_public(const ListenUrl& url) {
    return fmt::format(
        "listen: {}: the HTTP API would be reachable from outside; name an --admin-token-file or "
        "--admin-tokens-file, or "
        "listen on 127.0.0.1",
        url.text());
}

}  // namespace pulsegate
