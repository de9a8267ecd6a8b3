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
/// The parts know each other only as far as their constructors say. There is a member for each
/// part, and a method for each event that a shard has for one: hence so many.
class Broker {
public:
    Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Interest& interest,
           Counters& counters, BrokerHost& host);
    ~Broker();

    /// The values of the settings that it was given have changed, in their place.
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

    /// Sets the rules for clients that have none of their own; null: everything is allowed.
    /// The connected ones are judged by them in `tick`, or sooner by `judge_some`.
    void use(std::shared_ptr<const AccessRules> rules) {
        authorizations_.use(std::move(rules));
        subscriptions_.judge_all();
    }
    /// True if there are more.
    [[nodiscard]] bool judge_some(Millis now) { return subscriptions_.judge_some(now); }

    /// Sets which lines of the password file are valid, and disconnects the clients that others let
    /// in: some at once, and the rest in `tick`.
    void use(std::shared_ptr<const PasswordLines> lines);

    /// Answers the CONNECT of an authenticated client. On success it sets `link.session` and the
    /// link's limit.
    void login(Link& link, const Connect& connect, const AuthResult& result, Millis now) {
        logins_.login(link, connect, result, now);
    }
    /// Refuses a CONNECT and ends the link. `result`: what is known of the login so far. `why` goes
    /// to the log, `told` to the client; null: `why` goes to both.
    void refuse(Link& link, const Connect& connect, const AuthResult& result, Reason reason,
                std::string_view why, const char* told = nullptr) {
        logins_.refuse(link, connect, result, {reason, why, told ? std::string_view(told) : why});
    }

    /// The number of the last message with so many recipients that some of them are still to get
    /// it.
    std::uint64_t last_unfinished() const { return fan_out_.last_unfinished(); }
    /// Must the login of a client wait, because such a message, up to that number, may be older
    /// than what the client has missed in rooms? Else it would get the older one behind that.
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
    /// Should the client publish no more until some of its messages are answered? Don't read on.
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
    /// Hands in what is to be stored; so does each turn that brought something.
    void flush_store() { journal_.flush(); }
    /// Stores what clients take too long to acknowledge; to be called when the host was asked to.
    void store_overdue(Millis now) { static_cast<void>(sender_.store_overdue(now)); }
    /// Does so much wait for the store that clients should be kept from publishing?
    bool store_lags() const;
    /// Before the shard runs.
    Restore& restore() { return restore_; }
    /// Of the clients that are connected, when another process goes on.
    SessionPassage& passage() { return passage_; }
    /// What another shard has sent, or this one as the home of what it is about.
    void receive(ShardMessage& message, Millis now);
    /// What this shard has left to itself with `BrokerHost::later`.
    void receive(OwnTurn& turn, Millis now);
    void receive(LedgerAnswer& answer, Millis now);

    /// Are there recipients left of messages that have very many? Call `go_on` in each turn until
    /// there are none, before anything else that other shards have sent, and keep clients from
    /// publishing.
    bool unfinished() const { return fan_out_.unfinished(); }
    void go_on(Millis now) { fan_out_.go_on(now); }

    /// Call it once a second, and again in the next turn of the loop as long as it returns true.
    [[nodiscard]] bool tick(Millis now);

    /// Packs all sessions that can be packed, which `tick` does bit by bit; see DormantSessions.
    void pack_all(Millis now) {
        if (!unfinished()) dormant_.pack_all(tick_at(now));
    }

    /// What becomes of the users who are online when the gateway stops.
    enum class UsersAtStop : std::uint8_t {
        go_offline,   ///< that is published; connections are still open, so subscribers receive it
        are_awaited,  ///< by the next start, as after a crash; see Cause::drained
    };
    void begin_stop(UsersAtStop users, Millis now) {
        delayed_.stop();
        if (users == UsersAtStop::go_offline) disconnects_.announce_shutdown(now);
    }

    // For the admin API and metrics.

    /// Throws clients out, a bounded number of them.
    Evicted evict(const Eviction& eviction, Millis now) { return evictions_.evict(eviction, now); }
    void drop_will(Session& session) { wills_.keep(session, nullptr); }
    /// See DelayedPublishing.
    std::size_t drop_taken(const DelayedByClients& which) { return delayed_.drop_taken(which); }
    /// Calls `stored` when the store has all that was handed in so far, or refuses it.
    void when_stored(OnPublished stored);

    /// The user's presence as JSON, if this shard knows the user.
    std::optional<std::string> describe(std::string_view user, Millis now) const;
    /// Some of a user's, see ClientDescriber; or one, with its filters.
    ClientDescriptions clients(std::string_view user, const std::set<SessionId>& known,
                               std::size_t most, Millis now);
    ClientDescriptions client(std::string_view user, std::string_view client, Millis now);
    /// Some of this shard's, up to `most`; see ClientSearch.
    ClientsFound clients(const ClientFilter& filter, ClientPosition after, std::size_t most,
                         Millis now);
    ClientsFound clients_of(std::string_view user, const ClientFilter& filter, SessionId after,
                            std::size_t most, Millis now);
    /// See InboxAccess; there may be no such user.
    InboxView inbox(std::string_view user, InboxPosition after, std::size_t most,
                    std::size_t most_bytes, Millis now);
    InboxAccess::Dropped drop_inbox(std::string_view user, Millis now);
    /// Forgets that there is such a user, with the history. False: nothing is known of their
    /// presence, or they have come back.
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
    /// Messages that were acknowledged in time to spare the disk, since the start.
    std::uint64_t spared() const { return sender_.queues().totals().spared; }
    /// Messages in all queues, with those that have expired in the last minute.
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

    Receipts receipts_;  // outlives all that refers to one
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

    // By which the parts below know one another:
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
