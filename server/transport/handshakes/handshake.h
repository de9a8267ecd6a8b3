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

struct ConnectionLayers;

/// The handshakes that a listener requires before MQTT begins.
struct ListenerOptions {
    bool proxy_protocol = false;
    bool tls = false;
    std::string path{};  ///< of WebSocket; "": MQTT without it
    /// The origins of web pages that may open a WebSocket, as in `origin_allowed`. Never null if
    /// there is a path.
    std::shared_ptr<const std::vector<std::string>> origins{};
    /// The listener admits every client on loopback. A page with a name that resolves to this
    /// machine (DNS rebinding) could also connect. So pages must come from a loopback host.
    bool guards_loopback = false;

    bool plain() const { return !proxy_protocol && !tls && path.empty(); }
};

/// The handshake of one new connection: PROXY header, TLS handshake and WebSocket upgrade, as the
/// listener requires, in this order. It reads and writes without waiting. Its owner waits, and
/// gives up if it takes too long.
class Handshake {
public:
    enum class Step : std::uint8_t {
        reads,   ///< continue when the socket is readable
        writes,  ///< continue when it is writable
        tls,     ///< the next step is an expensive one of TLS; the owner chooses the time
        done,
        refused,  ///< `why` has the reason; the peer was told, if it can be
        gone,     ///< the peer closed, or the connection broke
    };

    Handshake(const ListenerOptions& options, std::shared_ptr<const Tls> tls)
        : remaining_(options), tls_(std::move(tls)) {}

    /// Proceeds as far as possible. `may_run_tls` allows an expensive step now.
    Step proceed(int socket, ConnectionLayers& layers, bool may_run_tls);

    const char* why() const { return why_; }

    /// The approximate number of bytes that TLS will take from its first step on.
    void expect_tls_memory(std::size_t bytes) { tls_memory_ = bytes; }
    /// The number of bytes that it keeps of incomplete headers, and the memory of TLS.
    std::size_t kept() const { return input_.size() + tls_memory_; }

    /// The kind of TLS state that is kept; once, after the TLS handshake.
    std::optional<TlsIdle> take_tls_idle() { return std::exchange(tls_idle_, std::nullopt); }

    /// The client's certificate, if OpenSSL's object is freed; once, after the TLS handshake.
    std::optional<ClientCertificate> take_certificate() {
        return std::exchange(certificate_, std::nullopt);
    }

    /// The bytes after the last header, which belong to MQTT.
    std::string take_unread() { return std::move(input_); }

private:
    Step read_proxy_header(int socket, ConnectionLayers& layers);
    Step shake_hands(int socket, ConnectionLayers& layers);
    void go_on_small(ConnectionLayers& layers);
    Step read_upgrade(int socket, ConnectionLayers& layers);
    Step answer_upgrade(std::size_t header_size, ConnectionLayers& layers);
    Step write(int socket, ConnectionLayers& layers);
    Step refuse(const char* why);

    ListenerOptions remaining_;  ///< the handshakes that are left
    const std::shared_ptr<const Tls> tls_;
    std::string input_;
    std::string output_;
    std::string trouble_;  ///< the error of OpenSSL
    std::optional<TlsIdle> tls_idle_;
    std::optional<ClientCertificate> certificate_;
    std::size_t tls_memory_ = 0;
    const char* why_ = "";
};

}  // namespace pulsegate
