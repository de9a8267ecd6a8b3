#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/packet.h"
#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/routing/retained.h"
#include "server/routing/router.h"
#include "server/session/client_description.h"
#include "server/session/client_search.h"
#include "server/session/delivery/dormant_sessions.h"
#include "server/session/delivery/event_recorder.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/presence_announcer.h"
#include "server/session/delivery/replay.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/receipts.h"
#include "server/session/inbox_access.h"
#include "server/session/life/disconnects.h"
#include "server/session/life/evictions.h"
#include "server/session/life/logins.h"
#include "server/session/life/restore.h"
#include "server/session/life/session_keeper.h"
#include "server/session/life/session_passage.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/delayed_publishing.h"
#include "server/session/requests/publishing.h"
#include "server/session/requests/subscriptions.h"
#include "server/session/requests/wills.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/memory_limits.h"
#include "server/session/state/session_table.h"
#include "server/session/terms/link.h"
#include "server/session/terms/settings.h"
#include "server/session/trace/tracer.h"
#include "server/session/users/history.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// The sessions of one shard, their subscriptions, and what a client's packet does. It owns the
/// tables of the shard and the parts that work on them, and passes each packet and event to its
/// part. It reaches clients through Links and other shards through BrokerHost; it belongs to the
/// shard's thread and has no socket and no clock: the caller passes the time.
///
/// Each part knows only the parts in its constructor. The broker has one member per part, and one
/// method per event that a shard passes to a part.
class Broker {
public:
    Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Interest& interest,
           Counters& counters, BrokerHost& host);
    ~Broker();

    /// The values of its settings have changed in place.
    void settings_changed();

    // Logins.

    /// The home shard of a client. A client without a user and a client id stays on this one.
    unsigned home(const Connect& connect, const AuthResult& result) const;
    /// The user of a client; `client` is its client id.
    std::string_view user_name(const Connect& connect, const AuthResult& result,
                               std::string_view client) const {
        return pulsegate::user_name(settings_, connect, result, client);
    }
    /// The session of the user's client, or null.
    const Session* find(std::string_view user, std::string_view client) const;

    /// Sets the rules for clients without rules of their own; null: everything is allowed.
    /// Connected clients are checked against them in `tick`, or sooner with `judge_some`.
    void use(std::shared_ptr<const AccessRules> rules) {
        authorizations_.use(std::move(rules));
        subscriptions_.judge_all();
    }
    /// Returns true if more clients are left.
    [[nodiscard]] bool judge_some(Millis now) { return subscriptions_.judge_some(now); }

    /// Sets the valid lines of the password file, and disconnects the clients that logged in with
    /// other lines: some at once, and the rest in `tick`.
    void use(std::shared_ptr<const PasswordLines> lines);

    /// Answers the CONNECT of an authenticated client. On success it sets `link.session` and the
    /// link's limit.
    void login(Link& link, const Connect& connect, const AuthResult& result, Millis now) {
        logins_.login(link, connect, result, now);
    }
    /// Refuses a CONNECT and ends the link. `result` has the known facts about the login. `why`
    /// goes to the log, and `told` to the client; if `told` is null, `why` goes to both.
    void refuse(Link& link, const Connect& connect, const AuthResult& result, Reason reason,
                std::string_view why, const char* told = nullptr) {
        logins_.refuse(link, connect, result, {reason, why, told ? std::string_view(told) : why});
    }

    /// The number of the last message that some of its many recipients do not have yet.
    std::uint64_t last_unfinished() const { return fan_out_.last_unfinished(); }
    /// Must the login of a client wait for such messages, up to that number, because they may be
    /// older than the messages that the client missed in rooms? Otherwise it would get the older
    /// message after the newer ones.
    bool awaits_deliveries(std::string_view user, std::string_view client,
                           std::uint64_t upto) const;

    // Events of connections.

    /// Handles any other packet of a client that is logged in.
    void handle(Session& session, const Packet& packet, Millis now);
    /// The client's connection has ended.
    void end(Session& session, const Ending& ending, Millis now) {
        disconnects_.end(session, ending, now);
    }
    /// Has the client sent messages that are not answered yet?
    bool has_unanswered(const Session& session) const { return Answers::has_any(session); }
    /// Must the client stop publishing until some of its messages are answered? Then don't read
    /// from it.
    bool awaits_answers(const Session& session) const { return Answers::are_too_many(session); }
    /// The link's backlog has become empty.
    void drained(Session& session, Millis now);

    /// A message of the admin API, see Publishing.
    void publish(Message message, OnPublished published, Millis now) {
        publishing_.publish(std::move(message), std::move(published), now);
    }

    // Messages of other shards.

    /// A message that was published on another shard.
    void receive(const MessageRef& message, Millis now) { fan_out_.receive(message, now); }
    /// Hands in the operations that must be stored. Each turn that added some does so, too.
    void flush_store() { journal_.flush(); }
    /// Stores messages that clients take too long to acknowledge. Call it when the host was asked
    /// to.
    void store_overdue(Millis now) { static_cast<void>(sender_.store_overdue(now)); }
    /// Does so much data wait for the store that clients must stop publishing?
    bool store_lags() const;
    /// Before the shard runs.
    Restore& restore() { return restore_; }
    /// Passes connected clients to another process.
    SessionPassage& passage() { return passage_; }
    /// A message from another shard, or from this one if it is the home shard concerned.
    void receive(ShardMessage& message, Millis now);
    /// A task that this shard has left to itself with `BrokerHost::later`.
    void receive(OwnTurn& turn, Millis now);
    void receive(LedgerAnswer& answer, Millis now);

    /// Are recipients left of messages that have very many? Then call `go_on` in each turn until
    /// none are left, before handling anything else from other shards, and let no client publish.
    bool unfinished() const { return fan_out_.unfinished(); }
    void go_on(Millis now) { fan_out_.go_on(now); }

    /// Call it once a second, and again in the next turn of the loop while it returns true.
    [[nodiscard]] bool tick(Millis now);

    /// Packs all sessions that can be packed, which `tick` does in steps; see DormantSessions.
    void pack_all(Millis now) {
        if (!unfinished()) dormant_.pack_all(tick_at(now));
    }

    /// What happens to users who are online when the gateway stops.
    enum class UsersAtStop : std::uint8_t {
        go_offline,   ///< this is published; connections are still open, so subscribers receive it
        are_awaited,  ///< by the next start, as after a crash; see Cause::drained
    };
    void begin_stop(UsersAtStop users, Millis now) {
        delayed_.stop();
        if (users == UsersAtStop::go_offline) disconnects_.announce_shutdown(now);
    }

    // For the admin API and metrics.

    /// Disconnects clients, a limited number in one call.
    Evicted evict(const Eviction& eviction, Millis now) { return evictions_.evict(eviction, now); }
    void drop_will(Session& session) { wills_.keep(session, nullptr); }
    /// See DelayedPublishing.
    std::size_t drop_taken(const DelayedByClients& which) { return delayed_.drop_taken(which); }
    /// Calls `stored` when the store has everything that was handed in so far, or refuses it.
    void when_stored(OnPublished stored);

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
    InboxAccess::Dropped drop_inbox(std::string_view user, Millis now);
    /// Forgets the user and the user's history. Returns false if the user's presence is not known,
    /// or the user is back.
    bool forget_user(std::string_view user);
    const Presence& presence() const { return presence_; }
    History& history() { return history_; }
    Tracer& tracer() { return tracer_; }
    Rooms& rooms() { return rooms_; }
    const RoomLogs& room_logs() const { return room_logs_; }
    const Retained& retained() const { return retained_; }
    /// Deletes retained messages of this shard, a page of them.
    void erase(Retained::Erasure& erasure, Millis now);
    const SessionTable& sessions() const { return sessions_; }
    const Journal& journal() const { return journal_; }
    /// The number of messages since the start that were acknowledged before they had to be stored.
    std::uint64_t spared() const { return sender_.queues().totals().spared; }
    /// The number of messages in all queues, including messages that expired in the last minute.
    std::size_t waiting() const { return sender_.queues().totals().messages; }
    std::size_t subscriptions() const { return router_.subscriptions() + dormant_.subscriptions(); }
    std::size_t share_groups() const { return shared_.groups(); }
    /// Entries of tables examined since the start: the measure of a turn's work.
    std::uint64_t work() const {
        return router_.work() + shared_.work() + replay_.work() + fan_out_.work() +
               sender_.queues().work() + room_logs_.work() + inboxes_.work() + keeper_.work();
    }

private:
    /// All shards delete the same retained messages, and one of them does so in the store.
    bool stores_retained() const { return journal_.is_on() && place_.index == 0; }

    void receive(const MessagesRead& read, Millis now);

    const BrokerSettings& settings_;
    const ShardPlace place_;

    Receipts receipts_;  // outlives all objects that refer to a receipt
    Journal journal_;
    EventRecorder events_;
    Tracer tracer_;
    History history_;
    Presence presence_;
    Router router_;
    Retained retained_;
    SessionTable sessions_;
    Authorizations authorizations_;
    MemoryLimits memory_;

    // The structs through which the parts below know each other:
    const ShardContext context_;
    PacketSender sender_;
    const Tables tables_;
    const DeliveryParts delivery_;
    const RequestParts requests_;

    Inboxes inboxes_;
    Rooms rooms_;
    RoomLogs room_logs_;
    DormantSessions dormant_;
    SharedSubscriptions shared_;
    Replay replay_;
    FanOut fan_out_;
    PresenceAnnouncer announcer_;
    DelayedPublishing delayed_;
    Publishing publishing_;
    Subscriptions subscriptions_;
    Wills wills_;
    SessionKeeper keeper_;
    Logins logins_;
    Disconnects disconnects_;
    ExpiredMessages expired_;
    Evictions evictions_;
    Restore restore_;
    SessionPassage passage_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
