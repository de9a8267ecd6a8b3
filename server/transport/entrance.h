#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/bytes.h"
#include "server/transport/tls.h"

namespace pulsegate {

struct Wrapping;

/// What a listener asks of its newcomers before MQTT begins.
struct Door {
    bool proxy_protocol = false;
    bool tls = false;
    std::string path{};  ///< of WebSocket; "": MQTT without it

    bool plain() const { return !proxy_protocol && !tls && path.empty(); }
};

/// The way of one newcomer through a door: PROXY header, TLS handshake, WebSocket upgrade,
/// whichever are asked for, in this order. It reads and writes without waiting; whoever owns it
/// waits, and gives up when it takes too long.
class Entrance {
public:
    enum class Step : std::uint8_t {
        reads,      ///< go on when the socket is readable
        writes,     ///< go on when it is writable
        handshake,  ///< the next step is a costly one: choose the moment
        done,
        refused,  ///< `why` says it; what there was to say to the peer has been said
        gone,     ///< the peer closed, or the connection broke
    };

    Entrance(const Door& door, std::shared_ptr<const Tls> tls)
        : door_(door), tls_(std::move(tls)) {}

    /// Goes as far as it can. `may_shake_hands` says that the moment for a costly step is now.
    Step proceed(int socket, Wrapping& wrapping, bool may_shake_hands);

    const char* why() const { return why_; }

    /// What came after the last header and belongs to MQTT.
    std::string take_unread() { return std::move(input_); }

private:
    Step read_proxy_header(int socket, Wrapping& wrapping);
    Step shake_hands(int socket, Wrapping& wrapping);
    Step read_upgrade(int socket, Wrapping& wrapping);
    Step answer_upgrade(std::size_t header_size, Wrapping& wrapping);
    Step write(int socket, Wrapping& wrapping);
    Step refuse(const char* why);

    Door door_;  ///< what is still asked for
    const std::shared_ptr<const Tls> tls_;
    std::string input_;
    std::string output_;
    std::string trouble_;  ///< what OpenSSL says
    const char* why_ = "";
};

}  // namespace pulsegate
