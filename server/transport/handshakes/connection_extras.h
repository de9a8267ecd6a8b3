#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "protocol/websocket.h"
#include "server/limits/unauthenticated_memory.h"
#include "server/transport/handshakes/handshake.h"
#include "server/transport/tls/tls_session.h"

namespace pulsegate {

/// Why a WebSocket is to be closed.
struct WebSocketEnd {
    CloseCode code;
    const char* fault = nullptr;  ///< null: the peer closed it
};

/// What a WebSocket keeps between two reads.
struct WebSocketState {
    Unframer unframer{};
    std::string rest{};  ///< the beginning of a header or of a control frame
    /// The peer's close frame, or what was wrong with its frames, as long as packets that came
    /// before it are still to be handled.
    std::optional<WebSocketEnd> end{};
    bool close_sent = false;
};

/// What is kept of a client until it has logged in.
struct Arrival {
    std::size_t tls_memory = 0;             ///< that TLS takes, about
    UnauthenticatedMemory::Share memory{};  ///< of all that its connection takes
};

/// What lies between the socket and MQTT on a connection that is not plain: TLS, WebSocket, a proxy
/// in front; and the way in, until it is gone. A plain connection has none.
struct ConnectionExtras {
    std::unique_ptr<TlsSession> tls{};                               ///< null: bytes go as they are
    std::unique_ptr<Handshake> handshake{};                          ///< null once MQTT has begun
    std::unique_ptr<Arrival> arrival = std::make_unique<Arrival>();  ///< null after the login
    std::unique_ptr<WebSocketState> websocket{};                     ///< null: without
    /// Behind a proxy, the client, or else the proxy.
    std::unique_ptr<const boost::asio::ip::tcp::endpoint> proxied_peer{};
};

/// Nothing if the peer has gone.
std::optional<boost::asio::ip::tcp::endpoint> peer_of(int socket);

/// Bytes read; 0: the peer closed; -1: `errno` says why not, EAGAIN for "not now". Under TLS a
/// fault of the protocol is EPROTO, and EINTR says that there may be more for another turn.
ssize_t receive_now(int socket, TlsSession* tls, void* buffer, std::size_t size);

/// The same for bytes written.
ssize_t send_now(int socket, TlsSession* tls, const void* bytes, std::size_t size);

}  // namespace pulsegate
