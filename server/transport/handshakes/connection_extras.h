#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "server/limits/unauthenticated_memory.h"
#include "server/transport/handshakes/connection_layers.h"
#include "server/transport/handshakes/handshake.h"
#include "server/transport/tls/tls.h"

namespace pulsegate {

/// The state of a client until it has logged in.
struct Arrival {
    UnauthenticatedMemory::Share memory{};           ///< for the whole memory of its connection
    std::unique_ptr<Handshake> handshake{};          ///< null once MQTT has begun
    std::optional<ClientCertificate> certificate{};  ///< if OpenSSL's object is freed
};

/// The layers of a connection, its state until the login, and the counted bytes of its layers. A
/// plain connection has none of these.
struct ConnectionExtras : ConnectionLayers {
    std::unique_ptr<Arrival> arrival = std::make_unique<Arrival>();  ///< null after the login
    std::size_t counted_record = 0;  ///< bytes of `small` or `channel` that are counted in the sum
                                     ///< of unfinished packets

    bool is_handshaking() const { return arrival && arrival->handshake; }
};

// Each idle client of TLS has one.
static_assert(sizeof(ConnectionExtras) <= 56);

/// Sends these last bytes and ends TLS, as far as the socket accepts it. No other output may wait.
void send_last(int socket, ConnectionExtras* extras, std::string_view bytes);

}  // namespace pulsegate
