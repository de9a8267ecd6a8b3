#pragma once

#include <cstddef>
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
    open,         ///< connected, without a CONNECT
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
    Time unanswered_ping{};  ///< when the oldest ping without an answer was sent; zero: none
};

/// Gets the events of clients, from the event loop. `now` was read after the bytes arrived.
///
/// It may do anything with the client, for example connect it again, but must not destroy it.
class ClientOwner {
public:
    /// The transport is connected, and nothing was sent: after `MqttClient::open`.
    virtual void opened(MqttClient& client, Time now) { (void)client, (void)now; }

    /// The CONNECT as its profile says. The owner may change it, for example add a will. What it
    /// points to must stay valid until the next call.
    virtual void logs_in(const MqttClient& client, Connect& packet) { (void)client, (void)packet; }

    /// CONNACK with success. A kept session that existed before and is not `session_present` is
    /// lost.
    virtual void connected(MqttClient& client, bool session_present, Time now) = 0;

    /// SUBACK: a reason (or granted QoS) for each filter of a SUBSCRIBE, in order. If several
    /// SUBSCRIBEs were sent one after the other, `first` is the number of filters in those before
    /// it. The server may answer them in any order.
    virtual void subscribed(MqttClient& client, std::size_t first, std::span<const Reason> reasons,
                            Time now) = 0;

    /// A message, which is acknowledged after this call, or by the owner
    /// (`ClientProfile::owner_acknowledges`). At QoS 2, a PUBLISH that comes after its
    /// PUBREL is passed on as a new message; only the payload shows whether it is new.
    virtual void received(MqttClient& client, const Publish& message, Time now) = 0;

    /// At QoS 2, another PUBLISH came under the same packet identifier before the PUBREL. It is
    /// answered, and `received` is not called. If its payload is not the same, it is another
    /// message.
    virtual void received_again(MqttClient& client, const Publish& message, bool is_same,
                                Time now) {
        (void)client, (void)message, (void)is_same, (void)now;
    }

    /// QoS 2: PUBREC with success. The server has the message; `acknowledged` or `in_doubt`
    /// follows.
    virtual void taken_over(MqttClient& client, std::uint64_t tag, Time now) {
        (void)client, (void)tag, (void)now;
    }

    /// QoS 1: PUBACK; QoS 2: PUBCOMP, or PUBREC with an error. `sent` is the time of the first
    /// send. Messages that the server has declared not to accept are not sent: then the error
    /// (`qos_not_supported`, `packet_too_large`) comes without a packet.
    virtual void acknowledged(MqttClient& client, std::uint64_t tag, Reason reason, Time sent,
                              Time now) = 0;

    /// A PUBACK, PUBREC or PUBCOMP has come behind that of a later message of the same QoS.
    virtual void overtaken(MqttClient& client, std::uint64_t tag, Time now) {
        (void)client, (void)tag, (void)now;
    }

    /// No answer will come, and the message is not sent again: the connection of a clean session
    /// ended, or a kept session is gone. The message may or may not have arrived.
    virtual void in_doubt(MqttClient& client, std::uint64_t tag) = 0;

    virtual void ping_answered(MqttClient& client, Time sent, Time now) = 0;

    /// The connection has ended, but not by the owner. The client is away.
    virtual void closed(MqttClient& client, const Ending& ending, Time now) = 0;

protected:
    ~ClientOwner() = default;
};

}  // namespace pulsegate::load
