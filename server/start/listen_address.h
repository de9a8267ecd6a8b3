#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <vector>

#include "server/settings/config.h"

namespace pulsegate {

/// Where a listener listens. Throws ConfigError.
boost::asio::ip::tcp::endpoint resolve(const ListenUrl& url);

/// May only one of them listen? Each family has ports of its own, for `::` leaves those of IPv4 to
/// a listener that names them.
bool excludes(const ListenUrl& one, const ListenUrl& other);

/// Has one of them the port for IPv4? Then a listener at `::` must leave the clients of IPv4 to it.
bool has_port_for_ipv4(const ListenUrl& url, const std::vector<ListenUrl>& all);

/// Is it reachable from outside? The clients of a proxy come from anywhere, wherever the proxy
/// itself is.
bool is_public(const ListenUrl& url, const boost::asio::ip::tcp::endpoint& endpoint);

/// Does this listener refuse every client that is not authenticated?
bool authenticates_clients(const Config& config, const ListenUrl& url);

/// Safe by default: a listener that is reachable from outside must authenticate its clients. Throws
/// ConfigError.
void check_public(const Config& config, const ListenUrl& url,
                  const boost::asio::ip::tcp::endpoint& endpoint);

/// Has the admin API a listener with TLS?
bool admin_has_tls(const Config& config);

/// Makes the sessions of its connections, with the certificates as they are now. It asks nobody for
/// a client certificate. Throws std::runtime_error that names the file and the remedy.
std::function<SSL*()> admin_tls_sessions(const Config& config);

/// What is said of an admin API that everybody could reach.
std::string admin_is_public(const ListenUrl& url);

}  // namespace pulsegate
