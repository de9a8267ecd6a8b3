#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <vector>

#include "server/settings/config.h"

namespace pulsegate {

/// The endpoint of a listener. Throws ConfigError.
boost::asio::ip::tcp::endpoint resolve(const ListenUrl& url);

/// True if only one of the two can listen. IPv4 and IPv6 have separate ports, because `::` leaves
/// an IPv4 port to a listener that names it.
bool excludes(const ListenUrl& one, const ListenUrl& other);

/// True if one of the listeners has this port for IPv4. Then a listener at `::` must leave IPv4
/// clients to it.
bool has_port_for_ipv4(const ListenUrl& url, const std::vector<ListenUrl>& all);

/// True if it is reachable from outside. A proxy's clients come from anywhere, wherever the proxy
/// itself is.
bool is_public(const ListenUrl& url, const boost::asio::ip::tcp::endpoint& endpoint);

/// True if this listener refuses every client that is not authenticated.
bool authenticates_clients(const Config& config, const ListenUrl& url);

/// Throws ConfigError if a listener that is reachable from outside does not authenticate its
/// clients.
void check_public(const Config& config, const ListenUrl& url,
                  const boost::asio::ip::tcp::endpoint& endpoint);

/// True if the HTTP API has a listener with TLS.
bool admin_has_tls(const Config& config);

/// Makes the TLS sessions of the HTTP API's connections, with the present certificates. It asks
/// for no client certificate. Throws std::runtime_error that names the file and the remedy.
std::function<SSL*()> admin_tls_sessions(const Config& config);

/// The message about an HTTP API that everybody could reach.
std::string admin_is_public(const ListenUrl& url);

}  // namespace pulsegate
