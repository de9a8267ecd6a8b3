#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "loadgen/net/stream.h"
#include "loadgen/time.h"
#include "protocol/packet.h"

namespace pulsegate::load {

class MqttClient;

/// What a client is doing.
enum class Stage : std::uint8_t {
    away,         ///< no connection
    connecting,   ///< TCP, TLS, WebSocket
    open,         ///< connected; nobody has had it log in
    logging_in,   ///< CONNECT sent
    subscribing,  ///< a SUBSCRIBE has no answer yet
    online,
    silent,     ///< reads, but sends nothing more
    abandoned,  ///< neither reads nor sends; its socket is open
};

/// The end of a connection that its owner did not end.
struct Ending {
    using By = EndedBy;
    By by;
    Stage stage;             ///< what the client was doing
    Reason reason;           ///< of the CONNACK or DISCONNECT; success: none
    std::string_view cause;  ///< in words
};

/// Is told what happens to clients, from the event loop. `now` was read after the bytes came.
///
/// It may do with the client as it likes, connect it again for example, but not destroy it.
class ClientOwner {
public:
    /// The transport is connected, and nothing was sent: after `MqttClient::open`.
    virtual void opened(MqttClient& client, Time now) { (void)client, (void)now; }

    /// CONNACK with success. A kept session that had been there before and is not `session_present`
    /// is lost.
    virtual void connected(MqttClient& client, bool session_present, Time now) = 0;

    /// SUBACK: a reason (or granted QoS) for each filter, in order.
    virtual void subscribed(MqttClient& client, std::span<const Reason> reasons, Time now) = 0;

    /// A message, to be acknowledged after this call. At QoS 2 a PUBLISH that comes after its
    /// PUBREL is passed on, as a new message: whether it is one only its payload can tell.
    virtual void received(MqttClient& client, const Publish& message, Time now) = 0;

    /// At QoS 2, a PUBLISH again before its PUBREL: answered, and not `received`.
    virtual void received_again(MqttClient& client, const Publish& message, Time now) {
        (void)client, (void)message, (void)now;
    }

    /// QoS 1: PUBACK; QoS 2: PUBCOMP, or PUBREC with an error. `sent` is when it was first sent.
    /// An error that no packet stands for: what the server has declared not to take
    /// (`qos_not_supported`, `packet_too_large`) is not sent.
    virtual void acknowledged(MqttClient& client, std::uint64_t tag, Reason reason, Time sent,
                              Time now) = 0;

    /// No answer will come and it won't be sent again: the connection of a clean session ended, or
    /// a kept session is gone. The message may have arrived or not.
    virtual void in_doubt(MqttClient& client, std::uint64_t tag) = 0;

    virtual void ping_answered(MqttClient& client, Time sent, Time now) = 0;

    /// Not for what the owner did itself. The client is away.
    virtual void closed(MqttClient& client, const Ending& ending, Time now) = 0;

protected:
    ~ClientOwner() = default;
};

}  // namespace pulsegate::load
