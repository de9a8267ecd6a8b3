#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/scenario/scenario.h"

namespace pulsegate::load {

/// An address of the server, as in "wss://chat.example:8084/mqtt".
struct ServerAddress {
    TransportKind transport = TransportKind::tcp;
    std::string host;
    std::uint16_t port = 1883;
    std::string path;  ///< of a WebSocket
};

/// Throws `std::invalid_argument`, which says what would be right.
ServerAddress parse_server(std::string_view url);
std::string url_of(const ServerAddress& server);

/// Where clients connect to, who they say they are, and where presence is to be seen. A file is
/// read by each worker on its own machine.
struct Target {
    std::vector<ServerAddress> servers;  ///< clients are spread over those of their transport

    // Users: a file of NAME:PASSWORD lines, or patterns in which {n} is the client's number.
    std::string users_file;
    std::string user;
    std::string password;
    std::string jwt_secret_file;  ///< the password is a JWT signed with HS256
    std::string jwt_key_file;     ///< or with RS256, PEM
    std::chrono::seconds jwt_life{3600};

    std::string ca_file;  ///< empty: the system's
    bool insecure = false;

    // What watchers look at.
    bool presence_topic = false;
    std::string events_file;

    /// Of a group's transport, never empty once the plan is made.
    std::vector<ServerAddress> servers_of(TransportKind transport) const;
};

}  // namespace pulsegate::load
