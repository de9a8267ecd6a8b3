#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "protocol/bytes.h"
#include "protocol/websocket.h"
#include "server/transport/channels/channel.h"
#include "server/transport/tls/small_tls.h"
#include "server/transport/tls/tls.h"

namespace pulsegate {

/// Why a WebSocket must be closed.
struct WebSocketEnd {
    CloseCode code;
    const char* fault = nullptr;  ///< null: the peer closed it
};

/// The state of a WebSocket between two reads.
struct WebSocketState {
    Unframer unframer{};
    std::string rest{};  ///< the beginning of a header or of a control frame
    /// The peer's close frame, or the fault in its frames, while earlier packets still have to be
    /// handled.
    std::optional<WebSocketEnd> end{};
    bool close_sent = false;
};

/// The layers between the socket and MQTT: TLS, WebSocket, and a proxy in front. A plain connection
/// has none. A connection with its socket on another node has a channel instead, and no other
/// layer.
struct ConnectionLayers {
    // With TLS, one of these; both are null without TLS.
    std::unique_ptr<TlsSession> tls{};            ///< OpenSSL's: the handshake, or all of it
    std::unique_ptr<SmallTls> small{};            ///< its replacement after the handshake
    std::unique_ptr<WebSocketState> websocket{};  ///< null without WebSocket
    std::unique_ptr<Channel> channel{};           ///< null with a socket
    /// Behind a proxy: the client, or the proxy itself if it states no client. With a channel: the
    /// client.
    std::unique_ptr<const boost::asio::ip::tcp::endpoint> proxied_peer{};
};

/// Nothing if the peer is gone.
std::optional<boost::asio::ip::tcp::endpoint> peer_of(int socket);

/// Returns the number of bytes read; 0 if the peer closed; or -1 and `errno`, EAGAIN for "not now".
/// Under TLS, EPROTO is a fault of the protocol, and EINTR says that there may be more for another
/// turn. `layers` may be null.
ssize_t receive_now(int socket, ConnectionLayers* layers, void* buffer, std::size_t size);

/// The same for writing: writes the bytes of `out` after its first `sent` bytes, and returns how
/// many more of them are done. It may change these bytes, see SmallTls.
ssize_t send_now(int socket, ConnectionLayers* layers, Buffer& out, std::size_t sent);

}  // namespace pulsegate
