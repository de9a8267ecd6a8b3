#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/routing/retained.h"
#include "server/session/terms/published.h"
#include "server/session/terms/session_id.h"

namespace pulsegate {

class DelayedPublishing;
class Evictions;
class History;
class Inboxes;
class Journal;
class PacketSender;
class Presence;
class Publishing;
class Receipts;
class RoomLogs;
class Rooms;
class SessionTable;
class Tracer;
struct ClientDescriptions;
struct ClientFilter;
struct ClientPosition;
struct ClientsFound;
struct DelayedByClients;
struct DeliveryParts;
struct Evicted;
struct Eviction;
struct InboxDropped;
struct InboxPosition;
struct InboxView;
struct ShardContext;
struct Tables;

/// A shard's sessions from the viewpoint of the HTTP API and the metrics: it describes and changes
/// them. It owns nothing; it belongs to the shard's thread.
///
/// The header only names the parts of a broker. A file that uses a part includes its header.
class BrokerAdmin {
public:
    BrokerAdmin(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
                Publishing& publishing, DelayedPublishing& delayed, Evictions& evictions);

    /// See Publishing.
    void publish(Message message, OnPublished published, Millis now);
    /// Disconnects clients, a limited number in one call.
    Evicted evict(const Eviction& eviction, Millis now);
    /// See DelayedPublishing.
    std::size_t drop_taken(const DelayedByClients& which);
    /// Calls `stored` when the store has everything that was handed in so far, or refuses it.
    void when_stored(OnPublished stored);
    /// Deletes one page of this shard's retained messages.
    void erase(Retained::Erasure& erasure, Millis now);

    /// The user's presence as JSON, if this shard knows the user.
    std::optional<std::string> describe(std::string_view user, Millis now) const;
    /// Some clients of a user, see ClientDescriber; or one client, with its filters.
    ClientDescriptions clients(std::string_view user, const std::set<SessionId>& known,
                               std::size_t most, Millis now);
    ClientDescriptions client(std::string_view user, std::string_view client, Millis now);
    /// Some clients of this shard, up to `most`; see ClientSearch.
    ClientsFound clients(const ClientFilter& filter, ClientPosition after, std::size_t most,
                         Millis now);
    ClientsFound clients_of(std::string_view user, const ClientFilter& filter, SessionId after,
                            std::size_t most, Millis now);
    /// See InboxAccess. The user need not exist.
    InboxView inbox(std::string_view user, InboxPosition after, std::size_t most,
                    std::size_t most_bytes, Millis now);
    InboxDropped drop_inbox(std::string_view user, Millis now);
    /// Forgets the user and the user's history. Returns false if the user's presence is not known,
    /// or if the user has come back.
    bool forget_user(std::string_view user);

    Rooms& rooms() { return rooms_; }
    History& history() { return history_; }
    Tracer& tracer() { return tracer_; }
    const RoomLogs& room_logs() const { return room_logs_; }
    const Presence& presence() const { return presence_; }
    const SessionTable& sessions() const { return sessions_; }
    const Retained& retained() const { return retained_; }
    const Journal& journal() const { return journal_; }

private:
    Receipts& receipts_;
    Journal& journal_;
    Tracer& tracer_;
    History& history_;
    Presence& presence_;
    SessionTable& sessions_;
    Retained& retained_;
    PacketSender& packets_;
    Inboxes& inboxes_;
    Rooms& rooms_;
    RoomLogs& room_logs_;
    Publishing& publishing_;
    DelayedPublishing& delayed_;
    Evictions& evictions_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
