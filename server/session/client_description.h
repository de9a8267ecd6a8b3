#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/packet.h"
#include "server/session/presence.h"

namespace pulsegate {

class RoomLogs;
class Session;

/// What the admin API shows of a client and its session.
struct ClientDescription {
    std::string client;
    std::optional<std::string> peer{};  ///< while it is connected: its address
    Version version{};                  ///< while it is connected
    std::size_t queued = 0;             ///< messages
    std::size_t queued_bytes = 0;
    std::size_t in_flight = 0;  ///< sent, and not acknowledged
    std::size_t subscriptions = 0;
    std::uint32_t expiry = 0;  ///< seconds that the session is kept after a connection
    std::vector<std::pair<std::string, QoS>> filters{};  ///< if one client was asked for
};

struct ClientDescriptions {
    std::vector<ClientDescription> clients{};
    bool more = false;  ///< than are described
};

/// The clients of a user, connected ones first, `most` of them. What one that is away has missed in
/// rooms counts as queued.
ClientDescriptions describe_clients(const User& user, RoomLogs& rooms, std::size_t most,
                                    Millis now);

/// One, with its filters.
ClientDescriptions describe_client(const Session& session, RoomLogs& rooms, Millis now);

}  // namespace pulsegate
