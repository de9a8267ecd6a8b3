// Reports a peer that does not speak MQTT correctly to the peer and to the log.
#include "protocol/decode.h"
#include "protocol/encode.h"
#include "protocol/other_protocol.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

void Connection::refuse_packet(Bytes packet, Reason reason, const char* cause) {
    if (reason == Reason::packet_too_large) {
        ++context_.counters.bad_packets;
        context_.counters.count(Limit::max_packet_size);
    }
    if (state_ == State::login) {
        refuse_connect(packet, reason, cause);
        if (const char* const other = cause_of_other_protocol(packet)) cause = other;
    }
    end({Cause::kicked, reason, cause});
}

/// Null: it may be faulty MQTT. Scanners are frequent, so the log has one line for each of their
/// addresses.
const char* Connection::cause_of_other_protocol(Bytes first_bytes) const {
    const auto other = other_protocol(first_bytes);
    if (other == OtherProtocol::none) return nullptr;
    if (!context_.counts.address_limits.is_new_scanner(origin_.address)) return "";
    if (other == OtherProtocol::http)
        return "it speaks HTTP instead of MQTT: a scanner, or a URL with the wrong port";
    return "it speaks TLS, which this listener does not: a scanner, or a client that should use an "
           "mqtts listener";
}

/// Tells the client the fault in its CONNECT, if the protocol level shows which CONNACK it
/// understands (MQTT 5.0, 3.1.2.2). This helps the client's developer.
void Connection::refuse_connect(Bytes connect, Reason reason, const char* cause) {
    const auto claims = claims_of_connect(connect);
    if (!claims) return;
    // 3.1.1 forbids a CONNACK for faults without a return code (3.1.4-1).
    const bool has_code = reason == Reason::unsupported_protocol_version ||
                          reason == Reason::client_identifier_not_valid;
    if (claims->version != Version::v5_0 && !has_code) return;
    const Buffer connack =
        refusing_connack(claims->version, reason, cause, claims->max_packet_size);
    if (connack.empty()) return;
    version_ = claims->version;
    context_.counters.count_out(PacketType::connack);
    send(connack);
}

const char* Connection::cause_of_login_timeout() const {
    if (held() && !handshaking()) return "its CONNECT was not answered within the login timeout";
    const char* const other = partial_ ? cause_of_other_protocol(as_bytes(*partial_)) : nullptr;
    return other ? other : "no CONNECT within the login timeout";
}

}  // namespace pulsegate
