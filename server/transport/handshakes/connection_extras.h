#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/bytes.h"
#include "protocol/websocket.h"
#include "server/limits/unauthenticated_memory.h"
#include "server/transport/channels/channel.h"
#include "server/transport/handshakes/handshake.h"
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

/// The state of a client until it has logged in.
struct Arrival {
    std::size_t tls_memory = 0;                      ///< approximate memory of TLS
    UnauthenticatedMemory::Share memory{};           ///< for the whole memory of its connection
    std::unique_ptr<Handshake> handshake{};          ///< null once MQTT has begun
    std::optional<ClientCertificate> certificate{};  ///< if OpenSSL's object is freed
};

/// The layers between the socket and MQTT: TLS, WebSocket, a proxy in front, and the handshake
/// until it is done. A plain connection has none. A connection with its socket on
/// another node has a channel instead, and no other layer.
struct ConnectionExtras {
    // With TLS, one of these; both are null without TLS.
    std::unique_ptr<TlsSession> tls{};  ///< OpenSSL's: the handshake, or all of it
    std::unique_ptr<SmallTls> small{};  ///< its replacement after the handshake
    std::unique_ptr<Arrival> arrival = std::make_unique<Arrival>();  ///< null after the login
    std::unique_ptr<WebSocketState> websocket{};                     ///< null without WebSocket
    std::unique_ptr<Channel> channel{};                              ///< null with a socket
    /// Behind a proxy: the client, or the proxy itself if it states no client. With a channel: the
    /// client.
    std::unique_ptr<const boost::asio::ip::tcp::endpoint> proxied_peer{};
    std::size_t counted_record = 0;  ///< bytes of `small` or `channel` that are counted in the sum
                                     ///< of unfinished packets

    bool is_handshaking() const { return arrival && arrival->handshake; }
};

// Each idle client of TLS has one.
static_assert(sizeof(ConnectionExtras) <= 56);

/// Nothing if the peer is gone.
std::optional<boost::asio::ip::tcp::endpoint> peer_of(int socket);

/// Returns the number of bytes read; 0 if the peer closed; or -1 and `errno`, EAGAIN for "not now".
/// Under TLS, EPROTO is a fault of the protocol, and EINTR says that there may be more for another
/// turn. `wraps` may be null.
ssize_t receive_now(int socket, ConnectionExtras* wraps, void* buffer, std::size_t size);

/// The same for writing: writes the bytes of `out` after its first `sent` bytes, and returns how
/// many more of them are done. It may change these bytes, see SmallTls.
ssize_t send_now(int socket, ConnectionExtras* wraps, Buffer& out, std::size_t sent);

/// Sends these last bytes and ends TLS, as far as the socket accepts it. No other output may wait.
void send_last(int socket, ConnectionExtras* wraps, std::string_view bytes);

}  // namespace pulsegate
