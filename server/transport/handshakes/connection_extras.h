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
#include "server/transport/handshakes/handshake.h"
#include "server/transport/tls/small_tls.h"
#include "server/transport/tls/tls.h"

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
    std::size_t tls_memory = 0;                      ///< that TLS takes, about
    UnauthenticatedMemory::Share memory{};           ///< of all that its connection takes
    std::optional<ClientCertificate> certificate{};  ///< if the object that had it is freed
};

/// What lies between the socket and MQTT on a connection that is not plain: TLS, WebSocket, a proxy
/// in front; and the way in, until it is gone. A plain connection has none.
struct ConnectionExtras {
    // Of TLS one of these; both are null if bytes go as they are.
    std::unique_ptr<TlsSession> tls{};       ///< OpenSSL's: the handshake, or all of it
    std::unique_ptr<SmallTls> small{};       ///< what goes on after the handshake in its place
    std::unique_ptr<Handshake> handshake{};  ///< null once MQTT has begun
    std::unique_ptr<Arrival> arrival = std::make_unique<Arrival>();  ///< null after the login
    std::unique_ptr<WebSocketState> websocket{};                     ///< null: without
    /// Behind a proxy, the client, or else the proxy.
    std::unique_ptr<const boost::asio::ip::tcp::endpoint> proxied_peer{};
    std::size_t counted_record = 0;  ///< bytes of `small`'s, in the sum of unfinished packets
};

// Each idle client of TLS has one.
static_assert(sizeof(ConnectionExtras) <= 56);

/// Nothing if the peer has gone.
std::optional<boost::asio::ip::tcp::endpoint> peer_of(int socket);

/// Bytes read; 0: the peer closed; -1: `errno` says why not, EAGAIN for "not now". Under TLS a
/// fault of the protocol is EPROTO, and EINTR says that there may be more for another turn. `wraps`
/// may be null.
ssize_t receive_now(int socket, ConnectionExtras* wraps, void* buffer, std::size_t size);

/// The same for bytes written, of what `out` has behind its first `sent` bytes: returns how many
/// more of them are done. It may change them, see SmallTls.
ssize_t send_now(int socket, ConnectionExtras* wraps, Buffer& out, std::size_t sent);

/// Sends these last bytes and ends TLS, as far as the socket takes that; nothing else waits to be
/// sent.
void send_last(int socket, ConnectionExtras* wraps, std::string_view bytes);

}  // namespace pulsegate
