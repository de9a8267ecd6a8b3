#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/encode.h"
#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/session/terms/client_terms.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

/// The terms between the gateway and a client, computed from the settings and the CONNECT (MQTT
/// 5.0, 3.1.2.11 and 3.2.2.3). The computation is pure: it reads and changes no session.
struct ConnectAgreement {
    ClientTerms terms;
    Millis silence = 0;                     ///< ms of silence after which the client has timed out
    std::uint32_t server_keep_alive = 0;    ///< seconds, for the CONNACK; 0: the client's own
    std::uint32_t session_expiry = 0;       ///< seconds for which the session is kept after the
                                            ///< connection
    std::uint16_t topic_alias_maximum = 0;  ///< aliases that the gateway may use
};

ConnectAgreement agree(const BrokerSettings& settings, const Connect& connect);

/// The longest Session Expiry Interval that is granted, in seconds.
std::uint32_t longest_session_expiry(const BrokerSettings& settings);

/// The reason why this CONNECT can't be accepted for any user; nothing if it can.
std::optional<Refusal> objection_to_connect(const BrokerSettings& settings, const Connect& connect);

/// The content of a CONNACK besides the agreement.
struct ConnackDetails {
    bool session_present = false;
    std::string_view assigned_client_id{};  ///< "": the client sent one
    std::string_view user{};                ///< the user with the inbox that is the Response
                                            ///< Information
};

/// The CONNACK of a login; empty if the client's Maximum Packet Size leaves no room for it.
Buffer accepting_connack(const BrokerSettings& settings, const Connect& connect,
                         const ConnectAgreement& agreement, const ConnackDetails& details);

/// What the CONNACK promises to every client, by the names of the settings. A client may rely on it
/// as long as it is connected. A larger number allows more; 0 means off, or none.
std::map<std::string, std::uint64_t> connack_promises(const BrokerSettings& settings);

}  // namespace pulsegate
