#include "server/session/lifecycle.h"

#include <algorithm>
#include <utility>

#include "server/base/client_id.h"
#include "server/base/log.h"
#include "server/session/sender.h"

namespace pulsegate {

namespace {

/// Has it come by a token that is good still?
bool is_spared(const Session& session, const Eviction& eviction) {
    const auto since = eviction.tokens_spared_since;
    const bool by_token = session.authorization && session.authorization->token_issued;
    return since && by_token && *session.authorization->token_issued >= *since;
}

}  // namespace

Lifecycle::Lifecycle(const BrokerSettings& settings, ShardPlace place, SessionTable& sessions,
                     Presence& presence, Inboxes& inboxes, Rooms& rooms, RoomLogs& room_logs,
                     Authorizations& authorizations, const MemoryLimits& memory,
                     const Retained& retained, SharedSubscriptions& shared,
                     Subscriptions& subscriptions, Replay& replay, FanOut& fan_out,
                     DelayedPublishing& delayed, PresenceAnnouncer& announcer,
                     EventRecorder& events, PacketSender& sender, Journal& journal,
                     Receipts& receipts, Counters& counters)
    : settings_(settings),
      place_(place),
      sessions_(sessions),
      presence_(presence),
      inboxes_(inboxes),
      rooms_(rooms),
      room_logs_(room_logs),
      authorizations_(authorizations),
      memory_(memory),
      retained_(retained),
      shared_(shared),
      subscriptions_(subscriptions),
      replay_(replay),
      fan_out_(fan_out),
      delayed_(delayed),
      announcer_(announcer),
      events_(events),
      sender_(sender),
      journal_(journal),
      receipts_(receipts),
      counters_(counters),
      ended_(journal) {}

std::string_view user_name(const BrokerSettings& settings, const Connect& connect,
                           const AuthResult& result, std::string_view client) {
    if (!result.user.empty()) return result.user;
    const bool named = connect.username && !connect.username->empty();
    return named && settings.user_from != UserFrom::client_id ? *connect.username : client;
}

// -- CONNECT --

void Lifecycle::login(Link& link, const Connect& connect, const AuthResult& result, Millis now) {
    if (const auto refusal = objection_to_connect(settings_, connect))
        return refuse(link, connect, *refusal);
    std::string client = connect.client_id.empty() ? assign_client_id(connect, result)
                                                   : std::string(connect.client_id);
    const auto name = user_name(settings_, connect, result, client);
    if (!authorizations_.is_valid(result.password_line))
        return refuse(link, connect, {Reason::not_authorized, revoked});
    const AccessRules* const rules = authorizations_.rules_of(result);
    if (rules && connect.will && !rules->may_publish({name, client}, connect.will->topic))
        return refuse(link, connect,
                      {Reason::not_authorized, "the rules don't allow it to publish its will"});
    if (connect.will && !rooms_.admits(name, connect.will->topic))
        return refuse(link, connect,
                      {Reason::not_authorized, "its user is no member of the room of its will"});
    if (connect.will)
        if (const auto refusal =
                objection_to_sender(settings_, name, connect.will->topic, connect.will->properties))
            return refuse(link, connect, *refusal);
    const ConnectAgreement agreement = agree(settings_, connect);
    const bool assigned = connect.client_id.empty();
    ConnackDetails details{.assigned_client_id = assigned ? client : std::string_view(),
                           .user = name};
    // Looked at before anything happens: a login that the client can't be told of is none.
    if (accepting_connack(settings_, connect, agreement, details).empty())
        return refuse(link, connect,
                      {Reason::implementation_specific_error,
                       "its Maximum Packet Size leaves no room for the CONNACK"});
    User& user = presence_.find_or_create(name);
    if (is_full(user, client))
        return refuse(link, connect,
                      {Reason::quota_exceeded, "its user has max-connections-per-user already",
                       Limit::max_connections_per_user});

    if (journal_.is_refused() && agreement.session_expiry > 0)
        return refuse(link, connect,
                      {Reason::server_unavailable,
                       "the disk is in trouble, and its session could not be stored"});

    if (connect.will) {
        const auto cost = stored_will(settings_, connect, name, nullptr)->message.cost();
        if (const auto refusal = memory_.objection_to_will(user, cost))
            return refuse(link, connect, *refusal);
    }

    Session& session = sessions_.find_or_create(user, std::move(client), wall_now());
    const bool takes_over = session.link;
    if (takes_over) detach(session);
    const bool resumed = !connect.clean_start && session.state.expiry() > 0;
    begin(session, resumed, now);
    if (!user.has_device()) welcome_first_device(user, now);
    authorizations_.grant(session, result, now);
    if (resumed)
        subscriptions_.judge(session, now);  // this login may be allowed less than the last
    details = {.session_present = resumed,
               .assigned_client_id = assigned ? session.client : std::string_view(),
               .user = user.name};
    attach(session, link, connect, agreement);
    greet(session, connect, accepting_connack(settings_, connect, agreement, details));
    if (resumed) resume(session, now);
    events_.login(session, resumed);
    announcer_.arrived(session, takes_over, now);
    inboxes_.lend(user, now);
}

void Lifecycle::refuse(Link& link, const Connect& connect, const Refusal& refusal) {
    if (refusal.limit) counters_.count(*refusal.limit);
    refuse(link, connect, refusal.reason, refusal.why, refusal.why);
}

void Lifecycle::refuse(Link& link, const Connect& connect, Reason reason, std::string_view why,
                       std::string_view told) {
    ++counters_.logins_refused;
    log_limited(spdlog::level::warn, "{} client {} as user {}: login refused: {}", link.peer(),
                quoted(connect.client_id), quoted(connect.username.value_or("")), why);
    events_.refused(link, connect, reason, why);
    const Buffer connack =
        refusing_connack(connect.version, reason, told,
                         connect.properties.number(Property::maximum_packet_size).value_or(0));
    if (!connack.empty()) {
        counters_.count_out(PacketType::connack);
        link.send(connack);
    }
    link.end({Cause::kicked, Reason::success, ""});
}

std::string Lifecycle::assign_client_id(const Connect& connect, const AuthResult& result) const {
    if (!result.client.empty()) return result.client;
    while (true) {
        auto id = random_client_id();
        // If the id is the user's name too, its home must be this shard.
        const auto user = user_name(settings_, connect, result, id);
        if (user != id || place_.is_home_of(user)) return id;
    }
}

/// Has the user max-connections-per-user already, without one that this client would replace?
bool Lifecycle::is_full(const User& user, std::string_view client) const {
    const auto most = settings_.max_connections_per_user;
    if (most == 0 || user.here < most) return false;
    const Session* known = sessions_.find(user, client);
    return !known || !known->link;
}

/// Closes the session's connection, because another one takes the session over.
void Lifecycle::detach(Session& session) {
    ++counters_.takeovers;
    log_limited(spdlog::level::info, "client {} of user {}: taken over by another connection",
                quoted(session.client), quoted(session.user.name));
    receipts_.forget(session);
    session.link->session = nullptr;
    session.link->end({Cause::taken_over, Reason::session_taken_over,
                       "another connection took the session over"});
    session.link = nullptr;
}

/// Resumes or clears the session that was kept, and cancels or publishes its will.
void Lifecycle::begin(Session& session, bool resumed, Millis now) {
    // MQTT 5.0, 3.1.3.2.2: a client that reconnects within the Will Delay cancels its will, unless
    // the session of the will ends here.
    const StoredWill* const will = session.state.will();
    if (resumed && will && will->delay > 0) set_will(session, nullptr);
    if (resumed)
        interrupt(session, now);
    else
        clear(session, now);
    publish_will(session, now);
    if (resumed && rooms_.has_rooms(session.user.name)) catch_up(session, now);
    sessions_.stop_expiry(session);
    session.since = wall_now();
}

/// Connects the session with its client, on the terms of the CONNECT.
void Lifecycle::attach(Session& session, Link& link, const Connect& connect,
                       const ConnectAgreement& agreement) {
    ++counters_.logins;
    session.link = &link;
    link.session = &session;
    session.terms = agreement.terms;
    session.forget_aliases();
    if (agreement.topic_alias_maximum != 0)
        session.aliases = std::make_unique<TopicAliases>(agreement.topic_alias_maximum);
    set_expiry(session, agreement.session_expiry);
    set_will(session,
             stored_will(settings_, connect, session.user.name, session.authorization.get()));
    link.set_largest_packet(agreement.terms.max_packet_size);
    link.set_limit(agreement.silence);
}

/// The CONNACK waits while a crash would bring back a session that had ended before. It would take
/// a message of QoS 2 for an earlier one with the same identifier, and swallow it.
void Lifecycle::greet(Session& session, const Connect& connect, Buffer connack) {
    PendingReceipt receipt(receipts_);
    Buffer refused;
    if (ended_.contains(session)) {
        journal_.await(receipt.debt());
        refused =
            refusing_connack(connect.version, Reason::server_unavailable,
                             "the disk is in trouble, and the earlier session could not be ended",
                             session.terms.max_packet_size);
    }
    sender_.greet(session, std::move(connack), receipt.close(), std::move(refused));
}

/// A session that outlives its connection outlives the process, too.
void Lifecycle::set_expiry(Session& session, std::uint32_t expiry) {
    const bool changes = session.state.expiry() != expiry;
    session.state.set_expiry(expiry);
    if (!journal_.is_on()) return;
    const bool is_new = session.state.owner == 0 && expiry > 0;
    if (is_new) session.state.owner = journal_.next_owner();
    if (session.state.owner == 0) return;
    if (is_new || changes) store_owner(session);
    if (!is_new) journal_.add_lazily(DropAbsence{session.state.owner});
}

void Lifecycle::store_owner(const Session& session) {
    journal_.add(PutOwner{.owner = session.state.owner,
                          .user = session.user.name,
                          .client = session.client,
                          .expiry = session.state.expiry(),
                          .protocol = static_cast<std::uint8_t>(session.terms.version)});
}

void Lifecycle::set_will(Session& session, std::unique_ptr<StoredWill> will) {
    const bool had_one = session.state.will();
    if (will) will->is_stored = session.state.owner != 0;
    if (session.state.owner != 0 && will)
        journal_.add(PutWill{.owner = session.state.owner,
                             .delay = will->delay,
                             .message_expiry = will->message_expiry,
                             .flags = will_flags(will->message),
                             .message = std::make_shared<const Message>(will->message)});
    else if (session.state.owner != 0 && had_one)
        journal_.add(DropWill{session.state.owner});
    session.set_will(std::move(will));
}

void Lifecycle::resume(Session& session, Millis now) {
    shared_.notify_groups(session, GroupMembership::Change::comes_back);
    sender_.resume(session, now);
    if (session.replay) replay_.go_on(session, now);
}

// -- DISCONNECT, and the end of a connection --

void Lifecycle::receive(Session& session, const Disconnect& disconnect) {
    if (const auto asked = disconnect.properties.number(Property::session_expiry_interval)) {
        const auto most = longest_session_expiry(settings_);
        if (session.state.expiry() == 0 && *asked != 0 && most != 0)
            return session.disconnect(Reason::protocol_error,
                                      "DISCONNECT sets a session expiry although CONNECT set none");
        session.state.set_expiry(std::min(*asked, most));
        if (session.state.owner != 0) store_owner(session);
    }
    // Only the normal disconnection cancels the will (MQTT 5.0, 3.1.2.5): 0x04 asks for it to be
    // published, the other reasons are errors.
    if (disconnect.reason == Reason::success) set_will(session, nullptr);
    session.link->end({Cause::logout, Reason::success, "the client disconnected"});
}

void Lifecycle::end(Session& session, const Ending& ending, Millis now) {
    const Millis last_packet = session.last_packet();
    receipts_.forget(session);
    session.link->session = nullptr;
    session.link = nullptr;
    session.forget_aliases();
    session.authorization.reset();

    const bool outlives_process = session.state.owner != 0 || ending.cause != Cause::shutdown;
    const bool survives = session.state.expiry() > 0 && outlives_process;
    if (survives)
        interrupt(session, now);
    else
        clear(session, now);
    // A server that stops need not publish wills (MQTT 5.0, 3.1.2.5).
    if (ending.cause == Cause::shutdown) set_will(session, nullptr);
    const StoredWill* const will = session.state.will();
    if (will && (!survives || will->delay == 0)) publish_will(session, now);

    announcer_.departed(session, ending.cause, last_packet, now);
    User& user = session.user;
    if (!survives) sessions_.destroy(session);
    inboxes_.lend(user, now);  // to another device
    end_inbox_if_done(user, now);
    if (!survives) return;
    sessions_.start_expiry(session, now);
    const Stamp place = rooms_.has_rooms(user.name) ? rooms_.draw_place() : 0;
    session.expiry_timer->place = place;
    if (session.state.owner != 0)
        journal_.add_lazily(PutAbsence{
            session.state.owner, wall_now() + WallMillis{session.state.expiry()} * 1000, place});
    if (Session* surplus = sessions_.over_quota(session)) {
        ++counters_.sessions_over_quota;
        end_disconnected(*surplus, "persistent-session-quota is exceeded", now);
    }
}

void Lifecycle::announce_shutdown(Millis now) {
    sessions_.for_each([&](Session& session) {
        if (session.link) announcer_.departed(session, Cause::shutdown, session.last_packet(), now);
    });
}

/// The connection ends and the session continues.
void Lifecycle::interrupt(Session& session, Millis now) {
    sender_.stop_reading(session);
    sender_.store_unstored(session, now);
    session.state.exchanges().interrupt();
    if (!session.expiry_timer) {
        shared_.notify_groups(session, GroupMembership::Change::goes_away);
        shared_.give_back(session, false, now);
    }
    replay_.pause(session);
}

/// The client starts clean, or the session ends: drops all of its state but the will.
void Lifecycle::clear(Session& session, Millis now) {
    shared_.notify_groups(session, GroupMembership::Change::leaves);
    shared_.give_back(session, true, now);
    shared_.forget(session);
    subscriptions_.end_all(session);
    fan_out_.forget(session);
    const bool was_device = session.is_linked() && !session.is_inbox();
    session.unlink();  // so that its own will to the user's inbox does not go to this session
    if (was_device && !session.user.has_device()) rooms_.last_device_went(session.user.name);
    replay_.pause(session);
    session.replay.reset();
    sender_.stop_reading(session);
    inboxes_.take_back(session);
    if (session.is_inbox()) inboxes_.forget(session);
    session.state.exchanges().clear();
    if (session.state.owner == 0) return;
    journal_.add(EndOwner{std::exchange(session.state.owner, 0)});
    ended_.add(session);
}

void Lifecycle::end_inbox_if_done(User& user, Millis now) {
    Session* const inbox = inboxes_.done(user);
    if (!inbox) return;
    clear(*inbox, now);
    sessions_.stop_expiry(*inbox);
    sessions_.destroy(*inbox);
}

/// Publishes the will of the session, if it has one that may still be published.
void Lifecycle::publish_will(Session& session, Millis now) {
    const auto will = session.take_will();
    if (!will) return;
    if (session.state.owner != 0) journal_.add(DropWill{session.state.owner});
    if (may_publish(session, *will)) {
        Message message = take_message(*will, now);
        if (will->is_stored && message.qos != QoS::at_most_once)
            return delayed_.publish_safely(std::move(message), will->message_expiry, session, now);
        fan_out_.publish(std::move(message), &session, now);
        return;
    }
    ++counters_.dropped_refused;
    log_limited(spdlog::level::warn,
                "client {} of user {}: will to {} dropped: its login or the rules don't allow it "
                "any more",
                quoted(session.client), quoted(session.user.name), quoted(will->message.topic));
}

/// Rules may change between the login and the will, and a delayed one is published when the client
/// has long gone.
bool Lifecycle::may_publish(const Session& session, const StoredWill& will) const {
    const bool delayed = will.delay > 0 && !session.link;
    if (delayed && will.authorized_until && *will.authorized_until < unix_now()) return false;
    const AccessRules* const rules = will.rules ? will.rules.get() : authorizations_.rules();
    const auto& topic = will.message.topic;
    if (!rooms_.admits(session.user.name, topic)) return false;
    return !rules || rules->may_publish({session.user.name, session.client}, topic);
}

// -- sessions of disconnected clients --

bool Lifecycle::expire(Millis now) {
    const auto due = [&](Session& session, bool ends) {
        if (!ends) return publish_will(session, now);
        ++counters_.sessions_expired;
        end_disconnected(session, "its session expiry has passed", now);
    };
    const bool more_due = sessions_.advance(tick_at(now), sessions_a_turn, due);
    make_room_in_store(now);
    judge_logins();
    return make_room(now) || more_due || judged_logins_;
}

/// A user with more clients than go in one turn is met again in the next, and they have gone then.
void Lifecycle::judge_logins() {
    constexpr std::size_t users_a_turn = 1000;
    if (!judged_logins_) return;
    std::size_t left = sessions_a_turn;
    PresencePosition done = *judged_logins_;
    const auto rest = presence_.visit(done, users_a_turn, [&](User& user) {
        for (Device& device : user.devices) {
            auto& session = static_cast<Session&>(device);
            if (!session.link || authorizations_.is_valid(session.password_line)) continue;
            if (session.link->broken()) continue;  // it ends anyway
            if (left == 0) return false;
            --left;
            session.disconnect(Reason::not_authorized, revoked);
        }
        done = user.position();
        return true;
    });
    judged_logins_ = left == 0 ? done : rest;
}

Evicted Lifecycle::evict(const Eviction& eviction, Millis now) {
    Evicted evicted;
    User* const user = presence_.find(eviction.user);
    if (!user) return evicted;
    if (eviction.client) {
        Session* const session = sessions_.find(*user, *eviction.client);
        if (session) evict(*session, eviction, evicted, now);
    } else {
        evict_some(*user, eviction, evicted, now);
    }
    if (evicted.ended == 0) return evicted;
    inboxes_.lend(*user, now);  // to another device
    end_inbox_if_done(*user, now);
    return evicted;
}

/// Connected clients come first, and have gone when the turn has ended.
void Lifecycle::evict_some(User& user, const Eviction& eviction, Evicted& evicted, Millis now) {
    for (auto next = user.devices.begin(); next != user.devices.end();) {
        auto& session = static_cast<Session&>(*next++);
        if (evicted.clients() + evicted.leaving >= sessions_a_turn) return;
        if (!session.link && !eviction.ends_sessions) return;
        if (!session.is_inbox()) evict(session, eviction, evicted, now);
    }
}

void Lifecycle::evict(Session& session, const Eviction& eviction, Evicted& evicted, Millis now) {
    if (session.since > eviction.arrived_by || is_spared(session, eviction)) return;
    if (session.link) {
        if (eviction.ends_sessions) session.state.set_expiry(0);
        if (session.link->broken()) return;  // it ends anyway
        if (session.link->leaving()) {
            ++evicted.leaving;
            return;
        }
        ++evicted.disconnected;
        session.disconnect(Reason::administrative_action, eviction.why);
    } else if (eviction.ends_sessions) {
        end_disconnected(session, eviction.why, now);
    }
    evicted.ended += eviction.ends_sessions;
}

void Lifecycle::end_disconnected(Session& session, const char* why, Millis now) {
    const auto queued = session.state.exchanges().waiting();
    const auto waiting = queued + (session.is_inbox() ? 0 : room_logs_.missed(session));
    counters_.dropped_session_ended += waiting;
    log_limited(waiting > 0 ? spdlog::level::warn : spdlog::level::info,
                "client {} of user {}: session ended: {}; {} queued messages lost",
                quoted(session.client), quoted(session.user.name), why, waiting);
    clear(session, now);
    publish_will(session, now);
    sessions_.stop_expiry(session);
    sessions_.destroy(session);
}

}  // namespace pulsegate
