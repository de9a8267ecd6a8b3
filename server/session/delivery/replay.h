#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/packet.h"
#include "server/base/owner_thread.h"
#include "server/routing/retained.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/shard_context.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/sending/unconfirmed_presence.h"
#include "server/session/state/session.h"
#include "server/session/state/tables.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Sends retained messages to sessions, page by page: after a SUBSCRIBE, or because presence
/// changed faster than the client could receive. Clients' retained messages are on this shard;
/// presence is queried from one shard after the other. Presence is a state, so a client that can't
/// keep up gets the latest state instead of every change.
///
/// It owns the queries in progress; a session's progress is in its ReplayState. It belongs to the
/// shard's thread.
class Replay {
public:
    Replay(const ShardContext& context, const Tables& tables, const Rooms& rooms,
           PacketSender& packets);

    /// Notes in the store, after the subscription, that its session must get the retained messages.
    /// `request` follows.
    void mark_owed(const Session& session, std::string_view filter);
    /// Requests the retained messages for a new subscription; `go_on` sends them.
    void request(Session& session, const SubscribeFilter& wanted, std::uint32_t identifier);
    /// The same for a subscription from before a restart. The messages may have been sent before.
    void restore(Session& session, const PutSubscription& stored);

    /// Presence changes are not queued for a client that is disconnected or busy. Later it gets the
    /// latest state of all users with at least this version.
    void fall_behind(Session& session, std::uint64_t version);

    /// Sends the next page of retained messages, or queries presence, if the client keeps up.
    void go_on(Session& session, Millis now);

    /// The client's backlog is empty: continues in a later round.
    void drained(Session& session);

    /// The subscription has other options now: the requests for its filter get them, too.
    void change_options(Session& session, std::string_view filter, SubscribeOptions options,
                        std::uint32_t identifier);

    /// The client has unsubscribed: drops the requests for this filter (MQTT 5.0, 3.10.4).
    void cancel(Session& session, std::string_view filter);

    /// Call it once a second.
    void tick(Millis now);

    /// The client has disconnected: drops the query in progress; `go_on` continues after it
    /// reconnects.
    void pause(Session& session);
    /// The connection of a session that goes on has ended, and is not linked to it any more. The
    /// client may not have received the latest presence that it was sent at QoS 0, so it is told
    /// again when it is back.
    void connection_ended(Session& session, Millis last_packet, Millis limit, Millis now);
    /// The session ends.
    void forget(Session& session);
    /// Everything that the session was sent is stored or acknowledged.
    void note_sent(const Session& session);

    /// The same for all sessions.
    void note_all_sent();
    /// Does it wait for no answer of another shard?
    bool is_idle() const { return awaited_.empty(); }
    /// Continues the session's progress of another process, which had this number of shards. Null:
    /// the session has received everything.
    void adopt(Session& session, std::unique_ptr<ReplayState> progress, unsigned shards);

    void receive(PresenceQuery& query, Millis now);
    void receive(PresencePage& page, Millis now);
    void receive(ReplayTurn& turn, Millis now);

    /// Retained messages and users examined since the start: the measure of a round's work.
    std::uint64_t work() const { return looks_; }

private:
    using Request = ReplayState::Request;

    void add(Session& session, Request request);
    void begin_request(Session& session);
    void begin_presence(ReplayState& replay) const;
    void end_requests(Session& session, std::size_t count);
    bool is_owed(const Session& session, std::string_view filter) const;
    bool has_room(const Session& session) const;
    void expand_request(Session& session);
    void wait_until_drained(Session& session);
    void note_sent_page(const Session& session, std::size_t requests, Millis now);
    std::uint64_t new_query(Session& session);
    Session* session_of_query(std::uint64_t query);
    std::size_t send_retained(Session& session, std::size_t room, std::size_t& looks, Millis now);
    void send(Session& session, const Request& request, const MessageRef& message, Millis now);
    void query_presence(Session& session);
    std::vector<PresenceQuery::Named> gather_users(Session& session);
    void receive_all(Session& session, const PresencePage& page, Millis now);
    void receive_users(Session& session, const PresencePage& page, Millis now);
    PresencePage answer(const PresenceQuery& query, Millis now);
    void send_presence(Session& session, const Request& request, const MessageRef& message,
                       Millis now);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    const Retained& retained_;
    const Presence& presence_;
    const Rooms& rooms_;
    PacketSender& packets_;
    Journal& journal_;
    ShardLinks& shards_;
    boost::unordered_flat_map<std::uint64_t, Session*> awaited_;  ///< by query id
    /// The time at which an owner was sent all retained messages of a filter. Some of them may not
    /// be stored or acknowledged yet.
    std::map<std::pair<OwnerId, std::string>, Millis> sent_;
    UnconfirmedPresence unconfirmed_;
    std::uint64_t next_query_ = 1;
    std::uint64_t looks_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
