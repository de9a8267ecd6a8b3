#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/net/address.h"
#include "loadgen/net/tls.h"
#include "protocol/packet.h"

namespace pulsegate::load {

class Identities;

/// A server as clients see it: where it is, and what they call it.
struct Endpoint {
    SocketAddress address;
    std::string host;  ///< for TLS (SNI, certificate) and the Host of a WebSocket's request
    std::uint16_t port = 0;
    std::string path = "/mqtt";  ///< of a WebSocket
};

/// How clients connect, and under which names: shared by all of a group. It outlives them.
struct ClientProfile {
    std::vector<Endpoint> endpoints;     ///< at least one; client `number` takes `number % size`
    std::vector<SocketAddress> sources;  ///< likewise; empty: the kernel chooses
    bool websocket = false;
    const TlsContext* tls = nullptr;  ///< nullptr: plain

    Version version = Version::v3_1_1;
    std::chrono::seconds keepalive{20};
    bool kept_session = false;
    std::chrono::seconds session_expiry{3600};  ///< 5.0, of a kept session
    std::uint16_t receive_maximum = 0;          ///< 5.0: what the client states; 0: nothing
    int receive_buffer = 0;                     ///< SO_RCVBUF of slow readers; 0: the system's

    Identities* identities = nullptr;  ///< nullptr: the number alone

    const Endpoint& endpoint_of(std::uint32_t number) const {
        return endpoints[number % endpoints.size()];
    }
    const SocketAddress* source_of(std::uint32_t number) const {
        return sources.empty() ? nullptr : &sources[number % sources.size()];
    }
};

}  // namespace pulsegate::load
