#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "protocol/packet.h"
#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/routing/retained.h"
#include "server/routing/router.h"
#include "server/session/broker_admin.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/packed_sessions.h"
#include "server/session/delivery/presence_announcer.h"
#include "server/session/delivery/replay.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/receipts.h"
#include "server/session/events/event_recorder.h"
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

/// The sessions of one shard, their subscriptions, and the handling of packets. It owns the tables
/// of the shard and the parts that work on them, and passes each packet and event to its part. It
/// reaches clients through Links and other shards through BrokerHost. It belongs to the shard's
/// thread and has no socket and no clock: the caller passes the time.
///
/// Each part knows only the parts in its constructor. Only the shard includes this header; the
/// broker is its member, so that no packet takes a detour. The login flow uses Logins, the admin
/// API BrokerAdmin and the start Restore.
class Broker {
public:
    Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Interest& interest,
           Counters& counters, BrokerHost& host);
    ~Broker();

    /// The values of its settings have changed in place.
    void settings_changed();

    /// For clients that have sent a CONNECT.
    Logins& logins() { return logins_; }
    const Logins& logins() const { return logins_; }

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

    // Events of connections.

    /// Handles any other packet of a client that is logged in.
    void handle(Session& session, const Packet& packet, Millis now);
    /// The client's connection has ended.
    void end(Session& session, const Ending& ending, Millis now) {
        disconnects_.end(session, ending, now);
    }
    /// The client's connection is cut off for good. Until the client is back or its connection has
    /// timed out, the other members of its groups get its messages.
    void lose_node(const Session& session);
    /// Has the client sent messages that are not answered yet?
    bool has_unanswered(const Session& session) const { return Answers::has_any(session); }
    /// Must the client stop publishing until some of its messages are answered? Then don't read
    /// from it.
    bool awaits_answers(const Session& session) const { return Answers::are_too_many(session); }
    /// The link's backlog has become empty.
    void drained(Session& session, Millis now);

    // Messages of other shards.

    /// A message that was published on another shard.
    void receive(const MessageRef& message, Millis now) { fan_out_.receive(message, now); }
    /// Hands in the operations that must be stored. The shard also does so at the end of each round
    /// that added operations.
    void flush_store() { journal_.flush(); }
    /// Stores messages that clients take too long to acknowledge. Call it when the host was asked
    /// to.
    void store_overdue(Millis now) { static_cast<void>(packets_.store().store_overdue(now)); }
    /// Does so much data wait for the store that clients must stop publishing?
    bool store_lags() const;
    /// Has the store refused data that it has not accepted since?
    bool store_refuses() const { return journal_.is_refused(); }
    /// Call it before the shard runs.
    Restore& restore() { return restore_; }
    /// Passes connected clients to another process.
    SessionPassage& passage() { return passage_; }
    /// A message from another shard, or from this one if it is the home shard.
    void receive(ShardMessage& message, Millis now);
    /// A task that this shard has left to itself with `BrokerHost::later`.
    void receive(OwnTurn& turn, Millis now);
    void receive(LedgerAnswer& answer, Millis now);

    /// Are recipients left of messages that have very many? Then call `go_on` in each round until
    /// none are left, before handling anything else from other shards, and let no client publish.
    bool unfinished() const { return fan_out_.unfinished(); }
    void go_on(Millis now) { fan_out_.go_on(now); }
    /// How many such messages are there?
    std::size_t under_way() const { return fan_out_.under_way(); }

    /// Call it once a second, and again in the next round of the loop while it returns true.
    [[nodiscard]] bool tick(Millis now);

    /// All ends that wait for a client's return come that much later: of awaited users, of
    /// sessions, and of the delays of wills. Call it when the shard was unable to handle the
    /// return.
    void postpone_ends(Tick ticks) {
        presence_.postpone(ticks);
        sessions_.postpone(ticks);
    }

    /// Packs all sessions that can be packed, which `tick` does in steps; see PackedSessions.
    void pack_all(Millis now) {
        if (!unfinished()) packed_.pack_all(sessions_.time_at(now));
    }

    /// How a stop treats users that are online.
    enum class UsersAtStop : std::uint8_t {
        go_offline,   ///< this is published; connections are still open, so subscribers receive it
        are_awaited,  ///< by the next start, as after a crash; see Cause::drained
    };
    void begin_stop(UsersAtStop users, Millis now) {
        delayed_.stop(now);
        if (users == UsersAtStop::go_offline) disconnects_.announce_shutdown(now);
    }

    /// For the HTTP API and metrics.
    BrokerAdmin& admin() { return admin_; }
    const BrokerAdmin& admin() const { return admin_; }
    void drop_will(Session& session) { wills_.keep(session, nullptr); }

    /// The number of messages since the start that were acknowledged before they had to be stored.
    std::uint64_t spared() const { return packets_.queues().totals().spared; }
    /// The number of messages in all queues, including messages that expired in the last minute.
    std::size_t waiting() const { return packets_.queues().totals().messages; }
    std::size_t subscriptions() const { return router_.subscriptions() + packed_.subscriptions(); }
    std::size_t share_groups() const { return shared_.groups(); }
    /// Entries of tables examined since the start: the measure of a round's work.
    std::uint64_t work() const {
        return router_.work() + shared_.work() + replay_.work() + fan_out_.work() +
               packets_.queues().work() + room_logs_.work() + inboxes_.work() + keeper_.work();
    }

private:
    void receive(const MessagesRead& read, Millis now);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    Tick last_tick_ = 0;

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

    // The structs through which the following parts know each other:
    const ShardContext context_;
    PacketSender packets_;
    const Tables tables_;
    const DeliveryParts delivery_;
    const RequestParts requests_;

    Inboxes inboxes_;
    Rooms rooms_;
    RoomLogs room_logs_;
    PackedSessions packed_;
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
    BrokerAdmin admin_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
