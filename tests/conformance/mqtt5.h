#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/decode.h"
#include "tests/support/gateway.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

/// What the conformance tests of MQTT 5.0 say again and again.
namespace pulsegate::mqtt5 {

/// A session that outlives its connection by an hour.
inline const std::string kept = "11 w3600";

/// A CONNECT in packet notation. The client id is the user too. `flags` 02 is a clean start, 00
/// none; `rest` is what follows the client id: will, username, password.
inline std::string connect(const std::string& client, const std::string& properties = "",
                           const std::string& flags = "02", const std::string& rest = "") {
    return "10 r s'MQTT' 05 " + flags + " k60 [ " + properties + " ] s'" + client + "' " + rest;
}

/// The packet of that type in these bytes. The result views them.
template <class Wanted>
Wanted read_as(const std::string& packet) {
    const Decoded decoded = decode(as_bytes(packet), v5, Sender::server);
    const auto* value = std::get_if<Packet>(&decoded);
    const auto* wanted = value ? std::get_if<Wanted>(value) : nullptr;
    REQUIRE_MESSAGE(wanted, "another packet was expected: ", hex(packet));
    return *wanted;
}

/// Logs in with this CONNECT, on a connection of its own. Was there a session to continue?
inline std::pair<Conversation, bool> log_in(const Gateway& gateway, const std::string& connect) {
    Conversation c(gateway);
    c.send(connect);
    const auto packet = c.packet();
    const auto connack = read_as<Connack>(packet);
    REQUIRE_MESSAGE(connack.reason == Reason::success, "refused: ", name(connack.reason));
    return {std::move(c), connack.session_present};
}

/// The same, with a new session.
inline Conversation join(const Gateway& gateway, const std::string& connect) {
    auto [c, session_present] = log_in(gateway, connect);
    CHECK(!session_present);
    return std::move(c);
}

/// The client comes back to its session.
inline Conversation resume(const Gateway& gateway, const std::string& client,
                           const std::string& properties = kept) {
    auto [c, session_present] = log_in(gateway, connect(client, properties, "00"));
    CHECK(session_present);
    return std::move(c);
}

/// Why a CONNECT is refused; the gateway closes after it says so.
inline Reason refusal(const Gateway& gateway, const std::string& connect) {
    Conversation c(gateway);
    c.send(connect);
    const auto packet = c.packet();
    c.expect_close();
    return read_as<Connack>(packet).reason;
}

/// What does not begin with a good CONNECT is closed, with a CONNACK that refuses or without a
/// word.
inline void check_rejected(const Gateway& gateway, const std::string& first) {
    CAPTURE(first);
    Conversation c(gateway);
    const auto answer = c.send(first).rest();
    if (!answer.empty()) CHECK(is_error(read_as<Connack>(answer).reason));
}

/// The DISCONNECT that is all that comes before the gateway closes.
inline Reason disconnected(Conversation& c) {
    const auto last = c.rest();
    return read_as<Disconnect>(last).reason;
}

/// A new client sends a packet that must end its connection with this reason.
inline void check_ends(const Gateway& gateway, const std::string& packet, Reason reason) {
    CAPTURE(packet);
    auto c = join(gateway, connect("p"));
    c.send(packet).expect_close(reason);
}

/// Subscribes to one filter, which must be granted the QoS that it asks for.
inline Conversation& subscribe(Conversation& c, const std::string& filter,
                               const std::string& options, const std::string& properties = "") {
    const unsigned qos = std::stoul(options, nullptr, 16) & 3;
    c.send("82 r k999 [ " + properties + " ] s'" + filter + "' " + options);
    return c.expect("90 r k999 [ ] 0" + std::to_string(qos));
}

/// Publishes at QoS 2, to the end of the exchange.
inline void publish_exactly_once(Conversation& sender, const std::string& topic,
                                 const std::string& payload = "") {
    sender.send("34 r s'" + topic + "' k1 [ ] '" + payload + "'").expect("50 02 k1");
    sender.send("62 02 k1").expect("70 02 k1");
}

/// Ends the connection with a DISCONNECT, and the gateway has seen it.
inline void leave(Conversation& c) { c.send("e0 00").expect_close(); }

/// Loses the connection, and the gateway has noticed. What came unread is forgotten.
inline void vanish(Conversation& c) {
    c.close_writing();
    c.rest();
}

/// The payloads of the next messages.
inline std::vector<std::string> hear(Conversation& c, int messages) {
    std::vector<std::string> payloads;
    for (int i = 0; i < messages; ++i) {
        const auto packet = c.packet();
        payloads.emplace_back(published(packet, v5).payload);
    }
    return payloads;
}

}  // namespace pulsegate::mqtt5
