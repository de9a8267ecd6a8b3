#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/scenario/identity_settings.h"
#include "loadgen/scenario/scenario.h"

namespace pulsegate::load {

/// An address of the server, as in "wss://chat.example:8084/mqtt".
struct ServerAddress {
    TransportKind transport = TransportKind::tcp;
    std::string host;
    std::uint16_t port = 1883;
    std::string path;  ///< of a WebSocket
};

/// Throws `std::invalid_argument` with the remedy.
ServerAddress parse_server(std::string_view url);
std::vector<ServerAddress> parse_servers(std::string_view urls);  ///< with commas between them
std::string url_of(const ServerAddress& server);

/// The servers of the clients, their identities, and where presence is shown. Each worker reads
/// files on its own machine.
struct Target {
    std::vector<ServerAddress> servers;  ///< clients are spread over those of their transport
    bool cluster = false;  ///< the servers are nodes of one cluster; otherwise they are separate

    IdentitySettings identity;

    std::string ca_file;  ///< empty: the system's
    bool insecure = false;

    // Where watchers get presence from.
    bool presence_topic = false;
    std::string events_file;

    // The HTTP API that is asked for presence as well; empty: none.
    std::string http;             ///< "http://127.0.0.1:8080"
    std::string http_token_file;  ///< token file of the API
    double http_rate = 10;        ///< requests per second of all workers together

    /// The servers of a group's transport; never empty once the plan is made.
    std::vector<ServerAddress> servers_of(TransportKind transport) const;
};

/// Sets where watchers get presence from: "topic" or "events=FILE". Throws `std::invalid_argument`
/// with the remedy.
void parse_presence(Target& target, std::string_view text);
/// The rate of requests to the HTTP API, as in "10/s". Throws as well.
double parse_http_rate(std::string_view text);

}  // namespace pulsegate::load
