#pragma once

#include <cstdint>
#include <string_view>

namespace pulsegate {

/// Why a user's presence changed. The numbers are in rows of the store, in the frames between nodes
/// and in the state that an upgrade passes on: add new causes at the end.
enum class Cause : std::uint8_t {
    login,            ///< the first device logged in
    logout,           ///< DISCONNECT by the client
    timeout,          ///< silent past the limit
    connection_lost,  ///< the connection ended without a DISCONNECT
    taken_over,       ///< another connection continues the same client, who stays online
    kicked,           ///< the gateway disconnected the client: bad packet, slow consumer
    shutdown,         ///< the gateway stops
    node_lost,        ///< the gateway died or was drained, and no device was back within the limit
    drained,  ///< only for a connection: the gateway asked the client to leave; the user stays
              ///< online
};
inline constexpr Cause last_cause = Cause::drained;

/// Is the user online after this cause?
constexpr bool means_online(Cause cause) {
    return cause == Cause::login || cause == Cause::taken_over;
}

std::string_view name(Cause cause);

}  // namespace pulsegate
