#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/bytes.h"
#include "server/base/tls_idle.h"
#include "server/transport/tls/tls.h"

namespace pulsegate {

struct ConnectionExtras;

/// What a listener asks of a new connection before MQTT begins.
struct ListenerOptions {
    bool proxy_protocol = false;
    bool tls = false;
    std::string path{};  ///< of WebSocket; "": MQTT without it
    /// Web pages that may open a WebSocket, as in `origin_allowed`; never null with a path.
    std::shared_ptr<const std::vector<std::string>> origins{};
    /// Whoever reaches it on loopback may come in: then so might a page whose name was made to lead
    /// here (DNS rebinding), and a page must come from a loopback host itself.
    bool guards_loopback = false;

    bool plain() const { return !proxy_protocol && !tls && path.empty(); }
};

/// The handshake of one new connection: PROXY header, TLS handshake, WebSocket upgrade,
/// whichever are asked for, in this order. It reads and writes without waiting; its owner
/// waits, and gives up when it takes too long.
class Handshake {
public:
    enum class Step : std::uint8_t {
        reads,   ///< go on when the socket is readable
        writes,  ///< go on when it is writable
        tls,     ///< the next step is a costly one, of TLS: choose the moment
        done,
        refused,  ///< `why` says it; what there was to say to the peer has been said
        gone,     ///< the peer closed, or the connection broke
    };

    Handshake(const ListenerOptions& options, std::shared_ptr<const Tls> tls)
        : remaining_(options), tls_(std::move(tls)) {}

    /// Goes as far as it can. `may_run_tls` says that the moment for a costly step is now.
    Step proceed(int socket, ConnectionExtras& extras, bool may_run_tls);

    const char* why() const { return why_; }

    /// Bytes that it keeps of headers which are not complete.
    std::size_t kept() const { return input_.size(); }

    /// What is kept of TLS, once after its handshake.
    std::optional<TlsIdle> take_tls_idle() { return std::exchange(tls_idle_, std::nullopt); }

    /// What came after the last header and belongs to MQTT.
    std::string take_unread() { return std::move(input_); }

private:
    Step read_proxy_header(int socket, ConnectionExtras& extras);
    Step shake_hands(int socket, ConnectionExtras& extras);
    void go_on_small(ConnectionExtras& extras);
    Step read_upgrade(int socket, ConnectionExtras& extras);
    Step answer_upgrade(std::size_t header_size, ConnectionExtras& extras);
    Step write(int socket, ConnectionExtras& extras);
    Step refuse(const char* why);

    ListenerOptions remaining_;  ///< what is still asked for
    const std::shared_ptr<const Tls> tls_;
    std::string input_;
    std::string output_;
    std::string trouble_;  ///< what OpenSSL says
    std::optional<TlsIdle> tls_idle_;
    const char* why_ = "";
};

}  // namespace pulsegate
