#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/packet.h"
#include "server/session/terms/session_id.h"
#include "server/session/users/presence.h"

namespace pulsegate {

class PacketSender;
class RoomLogs;
class Session;
struct PackedRecord;

/// What the HTTP API shows about a client and its session.
struct ClientDescription {
    /// Present while the client is connected.
    struct Connected {
        std::string peer;  ///< its address and port
        std::string listener;
        Version version;
        WallMillis since;
        Millis last_packet;
        Millis limit;  ///< limit of its silence
    };

    SessionId session;
    std::string user;
    std::string client;
    std::optional<Connected> connected{};
    std::size_t queued = 0;  ///< messages
    std::size_t queued_bytes = 0;
    std::size_t in_flight = 0;  ///< sent and not acknowledged
    std::size_t subscriptions = 0;
    std::uint32_t expiry = 0;  ///< seconds for which the session is kept after the connection
    std::vector<std::pair<std::string, QoS>> filters{};  ///< if one client was asked for

    /// Its approximate size in an answer, without the filters.
    std::size_t bytes() const {
        constexpr std::size_t all_else = 400;
        return all_else + user.size() + client.size();
    }
};

struct ClientDescriptions {
    std::vector<ClientDescription> clients{};
    bool more = false;  ///< there are more clients than these
};

/// Describes clients, in one round of the shard. Messages that an absent client missed in rooms
/// count as queued. Expired messages are dropped first.
class ClientDescriber {
public:
    ClientDescriber(RoomLogs& rooms, PacketSender& packets, Millis now)
        : rooms_(rooms), packets_(packets), now_(now) {}

    /// Some clients of a user, connected ones first: up to `most` of those that are not `known`
    /// yet, and as many as one round has time for.
    ClientDescriptions some(User& user, const std::set<SessionId>& known, std::size_t most);
    /// One client, with its filters.
    ClientDescriptions one(Session& session);

    /// The counts may include messages that expired recently.
    ClientDescription describe(const Session& session) const;
    static ClientDescription describe(const PackedRecord& record);

private:
    std::uint64_t work() const;

    RoomLogs& rooms_;
    PacketSender& packets_;
    const Millis now_;
};

}  // namespace pulsegate
