#include "server/session/life/logins.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/auth/auth_result.h"
#include "server/base/counters.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/text/client_id.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/fan_out.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/presence_announcer.h"
#include "server/session/delivery/replay.h"
#include "server/session/durable/shard_context.h"
#include "server/session/events/event_recorder.h"
#include "server/session/life/connect_agreement.h"
#include "server/session/life/session_keeper.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/request_parts.h"
#include "server/session/requests/subscriptions.h"
#include "server/session/requests/wills.h"
#include "server/session/state/memory_limits.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/terms/sender_name.h"
#include "server/session/terms/settings.h"
#include "server/session/trace/tracer.h"
#include "server/session/users/history.h"

namespace pulsegate {

namespace {

/// True if the session may expire before a restarted process is ready, or if the disk does not know
/// yet that its client is back.
bool is_near_end(const SessionTable& sessions, const Session& session, Millis now) {
    constexpr Millis to_come_back = 10 * 60 * 1000;
    if (!session.expiry_timer) return session.awaits_connack;
    return sessions.time_left_on_disk(*session.expiry_timer, session.state.expiry(), now) <
           to_come_back;
}

/// True if messages that may have been stored while the client was away are sent at once.
bool is_sent_something_old(const Session& session) {
    const bool has_queue = session.state.exchanges().outbox().queued() > 0;
    return has_queue || session.state.shared_count() > 0;
}

constexpr const char* not_stored =
    "the store is in trouble, and can't store the change of the earlier session";
constexpr const char* no_numbers =
    "the numbers of stored sessions are used up until the gateway restarts";
constexpr const char* much_waits = "much waits for the store, which is in trouble";

}  // namespace

Logins::Logins(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
               const RequestParts& requests, PresenceAnnouncer& announcer, FanOut& fan_out,
               SessionKeeper& keeper)
    : settings_(context.settings),
      place_(context.place),
      sessions_(tables.sessions),
      presence_(tables.presence),
      inboxes_(delivery.inboxes),
      rooms_(delivery.rooms),
      fan_out_(fan_out),
      authorizations_(requests.authorizations),
      memory_(requests.memory),
      subscriptions_(requests.subscriptions),
      announcer_(announcer),
      events_(delivery.events),
      tracer_(context.tracer),
      history_(context.history),
      answers_(delivery.packets.answers()),
      journal_(context.journal),
      receipts_(context.receipts),
      replay_(delivery.replay),
      wills_(requests.wills),
      keeper_(keeper),
      counters_(context.counters) {}

unsigned Logins::home(const Connect& connect, const AuthResult& result) const {
    const auto user = user_name(connect, result, connect.client_id);
    return user.empty() ? place_.index : place_.home_of(user);
}

std::string_view Logins::user_name(const Connect& connect, const AuthResult& result,
                                   std::string_view client) const {
    if (!result.user.empty()) return result.user;
    const bool named = connect.username && !connect.username->empty();
    return named && settings_.user_from != UserFrom::client_id ? *connect.username : client;
}

const Session* Logins::find(std::string_view user, std::string_view client) const {
    const User* known = presence_.find(user);
    return known ? sessions_.find(*known, client) : nullptr;
}

std::optional<PasswordLine> Logins::line_of(std::uint64_t fingerprint) const {
    return authorizations_.line_of(fingerprint);
}

std::uint64_t Logins::fingerprint_of(PasswordLine line) const {
    return authorizations_.fingerprint_of(line);
}

std::uint64_t Logins::last_unfinished() const { return fan_out_.last_unfinished(); }

bool Logins::awaits_deliveries(std::string_view user, std::string_view client,
                               std::uint64_t upto) const {
    if (!fan_out_.is_unfinished_upto(upto) || !rooms_.has_rooms(user)) return false;
    const Session* const session = find(user, client);
    return session && !session->link;
}

void Logins::login(Link& link, const Connect& connect, const AuthResult& result, Millis now) {
    if (const auto refusal = objection_to_connect(settings_, connect))
        return turn_away(link, connect, result, *refusal);
    std::string client = connect.client_id.empty() ? assign_client_id(connect, result)
                                                   : std::string(connect.client_id);
    const auto name = user_name(connect, result, client);
    if (!authorizations_.is_valid(result.password_line))
        return turn_away(link, connect, result, {Reason::not_authorized, revoked});
    const AccessRules* const rules = authorizations_.rules_of(result);
    if (rules && connect.will && !rules->may_publish({name, client}, connect.will->topic))
        return turn_away(link, connect, result,
                         {Reason::not_authorized, "the rules don't allow it to publish its will"});
    if (connect.will && !rooms_.admits(name, connect.will->topic))
        return turn_away(
            link, connect, result,
            {Reason::not_authorized, "its user is not a member of the room of its will"});
    if (connect.will)
        if (const auto refusal =
                objection_to_sender(settings_, name, connect.will->topic, connect.will->properties))
            return turn_away(link, connect, result, *refusal);
    const ConnectAgreement agreement = agree(settings_, connect);
    const bool assigned = connect.client_id.empty();
    ConnackDetails details{.assigned_client_id = assigned ? client : std::string_view(),
                           .user = name};
    // Checked before anything changes: if the CONNACK is too large for the client, the login fails.
    if (accepting_connack(settings_, connect, agreement, details).empty())
        return turn_away(link, connect, result,
                         {Reason::implementation_specific_error,
                          "its Maximum Packet Size leaves no room for the CONNACK"});
    User& user = presence_.find_or_create(name);
    if (is_full(user, client))
        return turn_away(link, connect, result,
                         {Reason::quota_exceeded, "its user has max-connections-per-user already",
                          Limit::max_connections_per_user});

    const Session* const known = sessions_.find(user, client);
    const bool resumed = known && !connect.clean_start && known->state.expiry() > 0;
    if (const auto refusal = objection_of_store(user, known, resumed, client, agreement, now))
        return turn_away(link, connect, result, *refusal);
    const bool is_kept = known && known->state.expiry() > 0;
    if (!is_kept && agreement.session_expiry > 0)
        if (const auto refusal = memory_.objection_to_session(user))
            return turn_away(link, connect, result, *refusal);
    if (connect.will)
        if (const auto refusal = objection_to_will(user, known, resumed, connect, agreement))
            return turn_away(link, connect, result, *refusal);

    Session& session = sessions_.find_or_create(user, std::move(client), wall_now());
    const bool was_near_end = is_near_end(sessions_, session, now);
    const bool takes_over = session.link;
    const bool was_cut_off = takes_over && session.link->is_cut_off();
    if (takes_over) detach(session, now);
    begin(session, resumed,
          {.was_accepted = takes_over && session.here, .was_cut_off = was_cut_off}, now);
    if (!user.has_device()) keeper_.first_device_came(user, now);
    authorizations_.grant(session, result, now);
    if (resumed)
        subscriptions_.judge(session, now);  // this login may have fewer rights than the last
    details = {.session_present = resumed,
               .assigned_client_id = assigned ? session.client : std::string_view(),
               .user = user.name};
    attach(session, link, agreement);
    const bool must_be_noted =
        was_near_end || (resumed && !takes_over && is_sent_something_old(session));
    auto will = stored_will(settings_, connect, user.name, result);
    if (will) sessions_.count(*will);
    Buffer connack = accepting_connack(settings_, connect, agreement, details);
    const bool waits = keeper_.is_end_uncommitted(user.name, session.client) ||
                       (must_be_noted && session.state.owner != 0);
    if (waits)
        send_connack_when_stored(session, connect, std::move(connack), resumed, std::move(will));
    else
        answers_.send_connack(session, std::move(connack), 0, {});
    if (resumed) keeper_.resume(session, now);
    if (!waits) accepted(session, resumed, std::move(will), now);
}

/// The reason why there is no room for the CONNECT's will; nothing if there is room.
std::optional<Refusal> Logins::objection_to_will(const User& user, const Session* known,
                                                 bool resumed, const Connect& connect,
                                                 const ConnectAgreement& agreement) {
    const auto cost = stored_will(settings_, connect, user.name, {})->message.cost();
    if (auto refusal = memory_.objection_to_will(user, known, resumed, cost)) return refusal;
    const bool is_stored = connect.will->retain || agreement.session_expiry > 0;
    if (is_stored && journal_.is_refused_much())
        return Refusal{Reason::server_unavailable, much_waits};
    // Logins continue while the store lags, so their wills must not delay all other operations.
    if (agreement.session_expiry > 0 && cost > small_message &&
        journal_.bytes() > settings_.most_unstored_bytes / 2)
        return Refusal{Reason::quota_exceeded,
                       "much waits for the store, and its will takes more than 1 KiB"};
    return std::nullopt;
}

/// The reason to refuse the login because the store refuses operations. Nothing has changed yet, so
/// the client's session stays.
std::optional<Refusal> Logins::objection_of_store(const User& user, const Session* known,
                                                  bool resumed, std::string_view client,
                                                  const ConnectAgreement& agreement, Millis now) {
    const bool is_stored = known && known->state.owner != 0;
    const bool is_new = agreement.session_expiry > 0 && !(resumed && is_stored);
    if (is_new && journal_.takes_no_new_owners())
        return Refusal{Reason::server_unavailable, no_numbers};
    if (!journal_.would_be_refused()) return std::nullopt;
    // Allowed: a client that reads its waiting messages makes room.
    if (resumed && is_stored && journal_.takes_nothing_new()) return std::nullopt;
    if (journal_.is_refused_too_much()) return Refusal{Reason::server_unavailable, much_waits};
    if (resumed && is_as_stored(*known, agreement, now)) return std::nullopt;
    if (agreement.session_expiry > 0)
        return Refusal{Reason::server_unavailable,
                       "the store is in trouble, and its session could not be stored"};
    if ((!resumed && is_stored) || keeper_.is_end_uncommitted(user.name, client))
        return Refusal{Reason::server_unavailable, not_stored};
    return std::nullopt;
}

/// True if the stored session would be right after a crash, now that the client is back. Then the
/// login need not wait for the store.
bool Logins::is_as_stored(const Session& session, const ConnectAgreement& agreement, Millis now) {
    const OwnerId owner = session.state.owner;
    const bool is_stored = owner != 0 && !journal_.is_new(owner);
    const bool lasts =
        agreement.session_expiry == session.state.expiry() && !is_near_end(sessions_, session, now);
    return is_stored && lasts && (session.link || !is_sent_something_old(session));
}

/// The login is accepted: the user is online, and watchers are told. The new will, or its absence,
/// replaces a delayed will (MQTT 5.0, 3.1.3.2.2).
void Logins::accepted(Session& session, bool resumed, std::unique_ptr<StoredWill> will,
                      Millis now) {
    wills_.keep(session, std::move(will));
    events_.login(session, resumed);
    tell_history(session, HistoryKind::login, resumed ? "its session goes on" : "");
    announcer_.arrived(session, now);
    inboxes_.hand_out(session.user, now);
}

void Logins::turn_away(Link& link, const Connect& connect, const AuthResult& result,
                       const Refusal& refusal) {
    if (refusal.limit) counters_.count(*refusal.limit);
    refuse(link, connect, result, {refusal.reason, refusal.why, refusal.why});
}

void Logins::refuse(Link& link, const Connect& connect, const AuthResult& result,
                    const LoginRefusal& refusal) {
    counters_.count_refused_login(refusal.reason);
    const auto user = user_name(connect, result, connect.client_id);
    const std::string peer = link.peer();  // once, because each call takes a system call
    const LoggedClient claimed{&link, connect.client_id, user, peer};
    log_limited(spdlog::level::warn, "{}: login refused: {}", claimed, LoggedReason{refusal.why});
    events_.refused(peer, connect, refusal.reason, refusal.why);
    tell_history(claimed, connect, refusal);
    const Buffer connack =
        refusing_connack(connect.version, refusal.reason, refusal.told,
                         connect.properties.number(Property::maximum_packet_size).value_or(0),
                         settings_.server_reference);
    if (!connack.empty()) {
        counters_.count_out(PacketType::connack);
        link.send(connack);
    }
    link.end({Cause::kicked, Reason::success, ""});
}

void Logins::tell_traces(const Link& link, const Connect& connect, const AuthResult& result) {
    if (!tracer_.is_on()) return;
    tracer_.claim(link, user_name(connect, result, connect.client_id), connect.client_id);
}

void Logins::tell_banned(const Session& session, const char* why) {
    history_.add(
        session.user.name,
        {.kind = HistoryKind::banned, .time = wall_now(), .client = session.client, .why = why});
}

void Logins::tell_history(const LoggedClient& claimed, const Connect& connect,
                          const LoginRefusal& refusal) {
    if (!history_.is_on()) return;
    history_.add_refused(claimed.user, claimed.link->origin_address(),
                         {.kind = HistoryKind::refused,
                          .time = wall_now(),
                          .reason = refusal.reason,
                          .version = connect.version,
                          .client = connect.client_id,
                          .address = claimed.peer,
                          .listener = claimed.link->listener(),
                          .why = refusal.why,
                          .link = claimed.link});
}

/// The session must be connected.
void Logins::tell_history(const Session& session, HistoryKind kind, const char* why) {
    if (!history_.is_on()) return;
    const std::string peer = session.link->peer();
    history_.add(session.user.name, {.kind = kind,
                                     .time = wall_now(),
                                     .version = session.terms.version,
                                     .client = session.client,
                                     .address = peer,
                                     .listener = session.link->listener(),
                                     .why = why,
                                     .link = session.link});
}

std::string Logins::assign_client_id(const Connect& connect, const AuthResult& result) const {
    if (!result.client.empty()) return result.client;
    while (true) {
        auto id = random_client_id();
        // If the id is also the name of the user, its home must be this shard.
        const auto user = user_name(connect, result, id);
        if (user != id || place_.is_home_of(user)) return id;
    }
}

/// True if the user has max-connections-per-user already, not counting one that this client would
/// replace. The connections of a node that is gone do not count, because their clients are to come
/// back, perhaps with other client ids.
bool Logins::is_full(const User& user, std::string_view client) const {
    const auto most = settings_.max_connections_per_user;
    if (most == 0 || user.here + waiting_ < most) return false;
    const auto counts = [](const Session& session) {
        return session.link && !session.link->has_lost_node();
    };
    const auto connected = std::ranges::count_if(user.devices, [&](const Device& device) {
        return counts(static_cast<const Session&>(device));
    });
    if (static_cast<std::size_t>(connected) < most) return false;
    const Session* known = sessions_.find(user, client);
    return !known || !counts(*known);
}

/// Closes the session's connection, because another one takes the session over.
void Logins::detach(Session& session, Millis now) {
    ++counters_.takeovers;
    log_limited(spdlog::level::info, "{}: taken over by another connection", session.logged());
    tell_history(session, HistoryKind::taken_over, "by another connection");
    answers_.forget(session);
    session.link->session = nullptr;
    session.link->end({Cause::taken_over, Reason::session_taken_over,
                       "another connection took the session over"});
    const Link& earlier = *std::exchange(session.link, nullptr);
    if (session.state.expiry() > 0)
        replay_.connection_ended(session, earlier.last_packet(), earlier.limit(), now);
}

/// Resumes or clears the session that was kept, and publishes its will.
void Logins::begin(Session& session, bool resumed, Earlier earlier, Millis now) {
    // MQTT 5.0, 3.1.3.2.2: a client that reconnects within the Will Delay cancels its will when it
    // is accepted, unless the session of the will ends here. The same holds for a client that is
    // back in time after a crash of this node or of its edge: for its will, it was never away.
    const StoredWill* const will = session.state.will();
    const bool timer_awaits = session.expiry_timer && session.expiry_timer->is_awaited;
    const bool login_waited = !session.expiry_timer && !earlier.was_accepted;
    const bool is_awaited = timer_awaits || login_waited || earlier.was_cut_off;
    const bool will_waits = resumed && will && (will->delay > 0 || is_awaited);
    const bool ended_with_connection = !resumed && session.state.expiry() == 0;
    if (earlier.was_accepted && earlier.was_cut_off && ended_with_connection)
        wills_.keep(session, nullptr);
    if (resumed)
        keeper_.interrupt(session, now);
    else
        keeper_.discard(session, now);
    if (!will_waits) wills_.publish(session, now);
    if (resumed) keeper_.catch_up(session, now);
    sessions_.stop_expiry(session);
    session.since = wall_now();
}

/// Connects the session with its client, on the terms of the CONNECT.
void Logins::attach(Session& session, Link& link, const ConnectAgreement& agreement) {
    ++counters_.logins;
    session.link = &link;
    link.session = &session;
    session.terms = agreement.terms;
    session.forget_aliases();
    if (agreement.topic_alias_maximum != 0)
        session.aliases = std::make_unique<TopicAliases>(agreement.topic_alias_maximum);
    set_expiry(session, agreement.session_expiry);
    link.set_largest_packet(agreement.terms.max_packet_size);
    link.set_limit(agreement.silence);
}

/// The CONNACK waits for the store in two cases. First, if a crash could bring back a session that
/// had ended before: that session could mistake a new message of QoS 2 for an earlier one with the
/// same identifier, and lose it. Second, if the disk still says that the client of the resumed
/// session is away, and the next start might therefore end the session, or mistake sent messages
/// for unsent ones. Until then the login is not accepted, and nobody is told about it.
void Logins::send_connack_when_stored(Session& session, const Connect& connect, Buffer connack,
                                      bool resumed, std::unique_ptr<StoredWill> will) {
    PendingReceipt receipt(receipts_);
    journal_.await(receipt.part());
    const ReceiptId id = receipt.close();
    ++waiting_;
    const auto kept = std::make_shared<std::unique_ptr<StoredWill>>(std::move(will));
    receipts_.watch(id, [this, id, resumed, kept](const Published& stored) {
        --waiting_;
        Session* const waiting = receipts_.session_of(id);
        if (!waiting) return;
        const Link& link = *waiting->link;
        const bool is_ending = link.is_lost() || link.is_ending();
        if (stored.refused && !resumed) waiting->state.set_expiry(0);  // nothing of it is stored
        if (!stored.refused && !is_ending)
            accepted(*waiting, resumed, std::move(*kept), monotonic_now());
    });
    // Linked already, because the client may be disconnected meanwhile. Messages that arrive now
    // are sent after its CONNACK.
    session.unlink();
    session.user.devices.push_front(session);
    answers_.send_connack(session, std::move(connack), id,
                          refusing_connack(connect.version, Reason::server_unavailable, not_stored,
                                           session.terms.max_packet_size));
}

/// A session that outlives its connection must be stored, because it must also outlive the process.
void Logins::set_expiry(Session& session, std::uint32_t expiry) {
    const bool changes = session.state.expiry() != expiry;
    session.state.set_expiry(expiry);
    if (!journal_.is_on()) return;
    const bool is_new = session.state.owner == 0 && expiry > 0;
    if (is_new) session.state.owner = journal_.next_owner();
    if (session.state.owner == 0) return;
    if (is_new || changes) keeper_.store_owner(session);
    if (!is_new) journal_.returned(session.state.owner);
}

}  // namespace pulsegate
