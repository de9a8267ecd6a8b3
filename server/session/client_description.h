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
struct DormantRecord;

/// What the admin API shows of a client and its session.
struct ClientDescription {
    /// While a client is connected.
    struct Connected {
        std::string peer;  ///< its address and port
        std::string listener;
        Version version;
        WallMillis since;
        Millis last_packet;
        Millis limit;  ///< of its silence
    };

    SessionId session;
    std::string user;
    std::string client;
    std::optional<Connected> connected{};
    std::size_t queued = 0;  ///< messages
    std::size_t queued_bytes = 0;
    std::size_t in_flight = 0;  ///< sent, and not acknowledged
    std::size_t subscriptions = 0;
    std::uint32_t expiry = 0;  ///< seconds that the session is kept after a connection
    std::vector<std::pair<std::string, QoS>> filters{};  ///< if one client was asked for

    /// What it takes in an answer, about, without the filters.
    std::size_t bytes() const {
        constexpr std::size_t all_else = 400;
        return all_else + user.size() + client.size();
    }
};

struct ClientDescriptions {
    std::vector<ClientDescription> clients{};
    bool more = false;  ///< than are described
};

/// Describes clients, in one turn of the shard. What a client that is away has missed in rooms
/// counts as queued, and what has expired is dropped first.
class ClientDescriber {
public:
    ClientDescriber(RoomLogs& rooms, PacketSender& sender, Millis now)
        : rooms_(rooms), sender_(sender), now_(now) {}

    /// Some clients of a user, connected ones first: up to `most` of those that are not `known`
    /// yet, and as many as one turn has time for.
    ClientDescriptions some(User& user, const std::set<SessionId>& known, std::size_t most);
    /// One, with its filters.
    ClientDescriptions one(Session& session);

    /// What has expired of late may be counted.
    ClientDescription describe(const Session& session) const;
    static ClientDescription describe(const DormantRecord& record);

private:
    std::uint64_t work() const;

    RoomLogs& rooms_;
    PacketSender& sender_;
    const Millis now_;
};

}  // namespace pulsegate
