#pragma once

#include <string>

#include "tests/support/gateway.h"

/// What the tests of MQTT 3.1.1 share. They take it that packet identifiers of the gateway count
/// from 1 in a new session, so that they can be written down.
namespace pulsegate::mqtt311 {

/// Connects with CleanSession 1: the session ends with the connection.
inline Conversation clean_session(const Gateway& gateway, const std::string& client) {
    Conversation c(gateway);
    c.login(client);
    return c;
}

/// Connects with CleanSession 0, where no session was kept.
inline Conversation new_session(const Gateway& gateway, const std::string& client) {
    Conversation c(gateway);
    c.send("10 r s'MQTT' 04 00 k60 s'" + client + "'").expect("20 02 00 00");
    return c;
}

/// Connects with CleanSession 0, where a session was kept.
inline Conversation kept_session(const Gateway& gateway, const std::string& client) {
    Conversation c(gateway);
    c.send("10 r s'MQTT' 04 00 k60 s'" + client + "'").expect("20 02 01 00");
    return c;
}

/// DISCONNECT. When it returns, the gateway knows that the client is away.
inline void leave(Conversation& c) { c.send("e0 00").expect_close().close(); }

inline void subscribe(Conversation& c, const std::string& filter, unsigned qos) {
    const auto code = " 0" + std::to_string(qos);
    c.send("82 r k1 s'" + filter + "'" + code).expect("90 03 k1" + code);
}

/// Publishes, and sees that the gateway has taken it. For clients that don't get it themselves.
inline void publish(Conversation& c, unsigned qos, const std::string& topic,
                    const std::string& payload, bool retain = false) {
    const auto first = std::string(retain ? "135" : "024").substr(qos, 1);
    const auto text = " r s'" + topic + "'" + (qos ? " k9 '" : " '") + payload + "'";
    c.send("3" + first + text);
    if (qos == 0) c.expect_nothing();
    if (qos == 1) c.expect("40 02 k9");
    if (qos == 2) c.expect("50 02 k9").send("62 02 k9").expect("70 02 k9");
}

inline void publish_retained(Conversation& c, unsigned qos, const std::string& topic,
                             const std::string& payload) {
    publish(c, qos, topic, payload, true);
}

/// The rest of the exchange for a message of QoS 2 that came with this identifier.
inline void complete(Conversation& c, const std::string& id) {
    c.send("50 02 " + id).expect("62 02 " + id).send("70 02 " + id);
}

}  // namespace pulsegate::mqtt311
