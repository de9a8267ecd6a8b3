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

/// A server as clients see it: its address and its name.
struct Endpoint {
    SocketAddress address;
    std::string host;  ///< for TLS (SNI, certificate) and the Host of a WebSocket's request
    std::uint16_t port = 0;
    std::string path = "/mqtt";  ///< of a WebSocket
};

/// How clients connect, and under which names. All clients of a group share it. It outlives them.
struct ClientProfile {
    std::vector<Endpoint> endpoints;       ///< at least one; client `number` takes `number % size`
    std::vector<SocketAddress> sources{};  ///< likewise; empty: the kernel chooses
    bool websocket = false;
    const TlsContext* tls = nullptr;  ///< nullptr: plain

    Version version = Version::v3_1_1;
    std::chrono::seconds keepalive{20};
    bool kept_session = false;
    std::chrono::seconds session_expiry{3600};  ///< for a kept session of 5.0
    std::uint16_t receive_maximum = 0;          ///< the client's value in 5.0; 0: none
    bool owner_acknowledges = false;            ///< with `MqttClient::acknowledge`
    int receive_buffer = 0;                     ///< SO_RCVBUF of slow readers; 0: the system's

    Identities* identities = nullptr;  ///< nullptr: only the number

    const Endpoint& endpoint_of(std::uint32_t number) const {
        return endpoints[number % endpoints.size()];
    }
    const SocketAddress* source_of(std::uint32_t number) const {
        return sources.empty() ? nullptr : &sources[number % sources.size()];
    }
};

}  // namespace pulsegate::load
