#include "server/session/delivery/replay.h"

#include <algorithm>
#include <utility>

#include "protocol/topic.h"
#include "server/message/topics.h"
#include "server/session/terms/option_bits.h"

namespace pulsegate {

namespace {

constexpr std::size_t looked_at_a_page = 2000;
constexpr std::size_t messages_a_page = 200;

/// An unacknowledged message is stored after this time at the latest.
constexpr Millis until_stored = AckDeadlines::span;

/// The work of a user's presence as JSON, in messages to one client.
constexpr std::uint64_t json_work = 8;

bool selects_any_presence(std::string_view filter) {
    return selects_all_presence(filter) || presence_user(filter);
}

bool subscribes_to_all_presence(const Session& session) {
    return std::any_of(session.state.subscriptions().begin(), session.state.subscriptions().end(),
                       [](const Subscription& subscription) {
                           return selects_all_presence(subscription.filter->text());
                       });
}

bool may_miss_presence(const Session& session) {
    return std::any_of(session.state.subscriptions().begin(), session.state.subscriptions().end(),
                       [](const Subscription& subscription) {
                           return subscription.options.qos == QoS::at_most_once &&
                                  selects_any_presence(subscription.filter->text());
                       });
}

}  // namespace

Replay::Replay(const ShardContext& context, const Tables& tables, const Rooms& rooms,
               PacketSender& packets)
    : settings_(context.settings),
      place_(context.place),
      retained_(tables.retained),
      presence_(tables.presence),
      rooms_(rooms),
      packets_(packets),
      journal_(context.journal),
      shards_(context.host) {}

/// Must the store remember that the session needs these retained messages? Not for presence,
/// because sessions get all of it after a restart.
bool Replay::is_owed(const Session& session, std::string_view filter) const {
    return session.state.owner != 0 && !selects_any_presence(filter) && retained_.may_have(filter);
}

void Replay::mark_owed(const Session& session, std::string_view filter) {
    if (is_owed(session, filter))
        journal_.add_lazily(MarkRetainedOwed{session.state.owner, std::string(filter), true});
}

void Replay::request(Session& session, const SubscribeFilter& wanted, std::uint32_t identifier) {
    thread_.assert_here();
    cancel(session, wanted.filter);
    if (!selects_any_presence(wanted.filter) && !retained_.may_have(wanted.filter)) return;
    Request request{.filter = std::string(wanted.filter),
                    .options = wanted.options,
                    .identifier = identifier,
                    .is_owed = is_owed(session, wanted.filter)};
    if (request.is_owed) sent_.erase({session.state.owner, request.filter});
    add(session, std::move(request));
}

void Replay::restore(Session& session, const PutSubscription& stored) {
    add(session, {.filter = stored.filter,
                  .options = options_of(stored.options),
                  .identifier = stored.identifier,
                  .is_owed = true});
}

void Replay::fall_behind(Session& session, std::uint64_t version) {
    thread_.assert_here();
    const PresencePosition since{.version = version};
    if (session.replay) {
        // One such request is enough. It may be anywhere after the request that is being answered.
        auto& requests = session.replay->requests;
        const auto same =
            std::find_if(requests.begin() + (session.link ? 1 : 0), requests.end(),
                         [](const Request& request) { return request.filter.empty(); });
        if (same != requests.end()) {
            same->since = std::min(same->since, since);
            if (same == requests.begin()) begin_presence(*session.replay);
            return;
        }
    }
    const bool first = !session.replay;
    add(session, {.filter = {}, .since = since});
    if (first && session.link) wait_until_drained(session);
}

void Replay::add(Session& session, Request request) {
    const bool first = !session.replay;
    if (first) session.replay = std::make_unique<ReplayState>();
    session.replay->requests.push_back(std::move(request));
    if (first) begin_request(session);
}

void Replay::begin_request(Session& session) {
    ReplayState& replay = *session.replay;
    // A client that fell behind has missed only presence.
    replay.retained_done = replay.requests.front().filter.empty();
    replay.after.clear();
    begin_presence(replay);
}

void Replay::begin_presence(ReplayState& replay) const {
    const auto user = presence_user(replay.requests.front().filter);
    replay.asked = 0;
    replay.shard = user ? place_.home_of(*user) : 0;
    replay.position = replay.requests.front().since;
}

void Replay::go_on(Session& session, Millis now) {
    thread_.assert_here();
    std::size_t room = messages_a_page;
    std::size_t looks = looked_at_a_page;
    while (session.replay) {
        ReplayState& replay = *session.replay;
        if (replay.query != 0 || replay.waiting) return;  // waits for an answer or for the backlog
        if (room == 0 || looks == 0 || !has_room(session)) return wait_until_drained(session);
        const auto& filter = replay.requests.front().filter;
        if (!replay.retained_done)
            room -= std::min(room, send_retained(session, room, looks, now));
        else if (filter.empty() && !subscribes_to_all_presence(session))
            expand_request(session);
        else if (filter.empty() || selects_any_presence(filter))
            return query_presence(session);
        else {
            if (replay.requests.front().is_owed) sent_[{session.state.owner, filter}] = now;
            end_requests(session, 1);
        }
    }
}

/// Retained messages follow the SUBACK, which may wait for the store. If messages wait already, a
/// page would only make the queue longer.
bool Replay::has_room(const Session& session) const {
    const Exchanges& exchanges = session.state.exchanges();
    return packets_.keeps_up(session) && !exchanges.outbox().unsent() &&
           !exchanges.answers().has_suback();
}

/// The notes are stored at once, because a crash before that would send all these messages again.
void Replay::tick(Millis now) {
    unconfirmed_.shrink();
    if (sent_.empty()) return;
    // Called again later; then all sent messages are stored.
    if (!packets_.store().store_overdue(now)) return;
    std::erase_if(sent_, [&](const auto& each) {
        const auto& [key, since] = each;
        const bool is_safe = since + until_stored <= now;
        if (is_safe) journal_.add(MarkRetainedOwed{key.first, key.second, false});
        return is_safe;
    });
}

void Replay::note_sent(const Session& session) {
    const OwnerId owner = session.state.owner;
    auto each = sent_.lower_bound({owner, std::string()});
    for (; each != sent_.end() && each->first.first == owner; each = sent_.erase(each))
        journal_.add_lazily(MarkRetainedOwed{owner, each->first.second, false});
}

void Replay::note_all_sent() {
    for (const auto& [key, since] : sent_)
        journal_.add_lazily(MarkRetainedOwed{key.first, key.second, false});
    sent_.clear();
}

void Replay::adopt(Session& session, std::unique_ptr<ReplayState> progress, unsigned shards) {
    pause(session);
    session.replay = std::move(progress);
    if (!session.replay) return;
    if (shards != place_.homes.shards()) begin_presence(*session.replay);  // users have other homes
    wait_until_drained(session);
}

/// Replaces the request of a client that fell behind by requests for single users, if it subscribes
/// to single users only.
void Replay::expand_request(Session& session) {
    const auto since = session.replay->requests.front().since;
    std::vector<Request> narrow;
    for (const Subscription& subscription : session.state.subscriptions())
        if (presence_user(subscription.filter->text()))
            narrow.push_back({.filter = std::string(subscription.filter->text()),
                              .options = subscription.options,
                              .identifier = subscription.identifier,
                              .since = since});
    auto& requests = session.replay->requests;
    requests.insert(requests.begin() + 1, narrow.begin(), narrow.end());
    end_requests(session, 1);
}

void Replay::wait_until_drained(Session& session) {
    session.replay->waiting = true;
    session.link->notify_when_drained();
}

void Replay::drained(Session& session) {
    thread_.assert_here();
    if (!session.replay || !session.replay->waiting) return;
    if (!has_room(session)) return;  // the window is full: the next acknowledgement continues
    session.replay->waiting = false;
    shards_.later(ReplayTurn{new_query(session)});
}

std::uint64_t Replay::new_query(Session& session) {
    awaited_.erase(session.replay->query);
    session.replay->query = next_query_++;
    awaited_.emplace(session.replay->query, &session);
    return session.replay->query;
}

/// The session of the query; null if the session has ended or the query was replaced.
Session* Replay::session_of_query(std::uint64_t query) {
    const auto found = awaited_.find(query);
    if (found == awaited_.end()) return nullptr;
    Session* session = found->second;
    awaited_.erase(found);
    session->replay->query = 0;
    return session;
}

void Replay::receive(ReplayTurn& turn, Millis now) {
    thread_.assert_here();
    if (Session* session = session_of_query(turn.id)) go_on(*session, now);
}

// -- clients' retained messages --

/// Returns the number of messages sent, and subtracts the examined topics from `looks`.
std::size_t Replay::send_retained(Session& session, std::size_t room, std::size_t& looks,
                                  Millis now) {
    ReplayState& replay = *session.replay;
    const Request& request = replay.requests.front();
    std::size_t sent = 0;
    std::size_t bytes = settings_.output_budget / 4;
    const std::size_t looks_before = looks;
    replay.after =
        retained_.visit(request.filter, replay.after, looks, now, [&](const MessageRef& message) {
            if (request.options.no_local && message->publisher == session.fingerprint())
                return true;
            if (!rooms_.admits(session.user.name, message->topic)) return true;
            send(session, request, message, now);
            bytes -= std::min(bytes, message->cost());
            return ++sent < room && bytes > 0 && packets_.keeps_up(session);
        });
    replay.retained_done = replay.after.empty();
    looks_ += looks_before - looks;
    return replay.retained_done ? sent + 1 : room;
}

/// Sends a retained message for a new subscription, with its options.
void Replay::send(Session& session, const Request& request, const MessageRef& message, Millis now) {
    Delivery delivery{.message = message,
                      .qos = std::min({message->qos, request.options.qos, settings_.max_qos}),
                      .retain = true};
    if (request.identifier != 0) delivery.identifiers.push_back(request.identifier);
    PublishEncoder encoder = packets_.encoder(*message, now);
    PartSource nobody_waits;
    packets_.enqueue(session, delivery, encoder, now, nobody_waits);
}

// -- presence --

void Replay::query_presence(Session& session) {
    const auto id = new_query(session);
    const ReplayState& replay = *session.replay;
    PresenceQuery query{.reply_to = place_.index, .id = id, .after = replay.position, .users = {}};
    if (presence_user(replay.requests.front().filter)) query.users = gather_users(session);
    shards_.send(replay.shard, std::move(query));
}

/// The first request is about one user. The next requests for the same shard are asked together
/// with it, because waking a shard for each of hundreds of friends costs more than the answers.
std::vector<PresenceQuery::Named> Replay::gather_users(Session& session) {
    ReplayState& replay = *session.replay;
    auto& requests = replay.requests;
    const auto most = std::min(requests.size(), messages_a_page);
    looks_ += most;
    std::vector<PresenceQuery::Named> users;
    const auto is_asked = [&](const Request& request) {
        auto user = presence_user(request.filter);
        if (!user || place_.home_of(*user) != replay.shard) return false;
        users.push_back({std::move(*user), request.since});
        return true;
    };
    std::stable_partition(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(most),
                          is_asked);
    replay.asked = users.size();
    return users;
}

void Replay::receive(PresenceQuery& query, Millis now) {
    thread_.assert_here();
    PresencePage page = answer(query, now);
    // A subscriber on this shard gets the page at once: changes while it waited in the mailbox
    // would reach the client first, and the page would then overwrite them with an older state.
    if (query.reply_to == place_.index) return receive(page, now);
    shards_.send(query.reply_to, std::move(page));
}

PresencePage Replay::answer(const PresenceQuery& query, Millis now) {
    PresencePage page{.id = query.id, .next = {}, .messages = {}};
    // Limits the bytes of a page, because names may be long and must not use up the subscriber's
    // output budget.
    std::size_t room = settings_.output_budget / 4;
    const auto state_of = [&](const User& user) {
        looks_ += json_work;
        auto message = presence_message(user, now, wall_now());
        if (message) room -= std::min(room, message->cost());
        return message;
    };
    for (const auto& [name, after] : query.users) {
        if (room == 0) break;  // the first user always fits, so that each page makes progress
        MessageRef news;
        presence_.show(name, [&, known = after](const User& user) {
            if (known < user.position()) news = state_of(user);
        });
        page.messages.push_back(std::move(news));
    }
    if (!query.users.empty()) return page;
    page.next = presence_.visit(query.after, messages_a_page, [&](const User& user) {
        if (auto message = state_of(user)) page.messages.push_back(std::move(message));
        return room > 0;
    });
    return page;
}

void Replay::receive(PresencePage& page, Millis now) {
    thread_.assert_here();
    Session* const session = session_of_query(page.id);
    if (!session) return;
    const bool is_of_users = presence_user(session->replay->requests.front().filter).has_value();
    const bool has_some =
        std::ranges::any_of(page.messages, [](const auto& one) { return one != nullptr; });
    if (has_some) note_sent_page(*session, is_of_users ? page.messages.size() : 1, now);
    is_of_users ? receive_users(*session, page, now) : receive_all(*session, page, now);
    if (!session->replay) return;
    has_some ? wait_until_drained(*session) : go_on(*session, now);
}

/// Notes that a page was sent, which answers the first `requests`.
void Replay::note_sent_page(const Session& session, std::size_t requests, Millis now) {
    PresencePosition since = session.replay->requests.front().since;
    for (std::size_t i = 1; i < requests; ++i)
        since = std::min(since, session.replay->requests[i].since);
    unconfirmed_.sent(session, since.version, now);
}

void Replay::receive_users(Session& session, const PresencePage& page, Millis now) {
    const auto& requests = session.replay->requests;
    for (std::size_t i = 0; i < page.messages.size(); ++i)
        if (page.messages[i]) send_presence(session, requests[i], page.messages[i], now);
    end_requests(session, page.messages.size());
}

void Replay::receive_all(Session& session, const PresencePage& page, Millis now) {
    ReplayState& replay = *session.replay;
    for (const MessageRef& message : page.messages)
        send_presence(session, replay.requests.front(), message, now);
    if (page.next) {
        replay.position = *page.next;
    } else if (replay.shard + 1 == place_.homes.shards()) {
        end_requests(session, 1);
    } else {
        ++replay.shard;
        replay.position = replay.requests.front().since;
    }
}

/// Sends a presence message: as a retained one for a new subscription, or by the present
/// subscriptions of a client that fell behind.
void Replay::send_presence(Session& session, const Request& request, const MessageRef& message,
                           Millis now) {
    if (!rooms_.admits(session.user.name, message->topic)) return;
    if (!request.filter.empty()) return send(session, request, message, now);
    bool wanted = false;
    Delivery delivery{.message = message};
    looks_ += session.state.subscription_count();
    for (const Subscription& subscription : session.state.subscriptions()) {
        const auto filter = subscription.filter->text();
        // Filters with a leading wildcard don't select presence.
        if (begins_with_wildcard(filter) || !topic_matches(filter, message->topic)) continue;
        wanted = true;
        delivery.retain |= subscription.options.retain_as_published;
        delivery.qos = std::max(delivery.qos, subscription.options.qos);
        if (subscription.identifier != 0) delivery.identifiers.push_back(subscription.identifier);
    }
    if (!wanted) return;
    delivery.qos = std::min(delivery.qos, message->qos);
    PublishEncoder encoder = packets_.encoder(*message, now);
    PartSource nobody_waits;
    packets_.enqueue(session, delivery, encoder, now, nobody_waits);
}

// -- ends --

/// Notes that the client may have missed presence at QoS 0. At QoS 1, the messages themselves are
/// sent again.
void Replay::connection_ended(Session& session, Millis last_packet, Millis limit, Millis now) {
    thread_.assert_here();
    looks_ += session.state.subscription_count();
    if (may_miss_presence(session))
        fall_behind(session, unconfirmed_.take(session, last_packet, limit, now));
    else
        unconfirmed_.forget(session);
}

void Replay::forget(Session& session) {
    pause(session);
    session.replay.reset();
    unconfirmed_.forget(session);
}

/// Ends the first `count` requests.
void Replay::end_requests(Session& session, std::size_t count) {
    auto& requests = session.replay->requests;
    requests.erase(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(count));
    if (requests.empty())
        session.replay.reset();
    else
        begin_request(session);
}

void Replay::cancel(Session& session, std::string_view filter) {
    thread_.assert_here();
    if (!session.replay) return;
    auto& requests = session.replay->requests;
    looks_ += requests.size();
    const auto asked =
        std::max<std::size_t>(session.replay->query != 0 ? session.replay->asked : 0, 1);
    const bool under_way =
        std::any_of(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(asked),
                    [&](const Request& request) { return request.filter == filter; });
    if (under_way) pause(session);
    std::erase_if(requests, [&](const Request& request) {
        if (request.filter != filter) return false;
        if (request.is_owed) sent_[{session.state.owner, request.filter}] = 0;  // no longer needed
        return true;
    });
    if (!under_way) return;
    if (requests.empty()) {
        session.replay.reset();
        return;
    }
    begin_request(session);
    if (session.link) wait_until_drained(session);
}

void Replay::change_options(Session& session, std::string_view filter, SubscribeOptions options,
                            std::uint32_t identifier) {
    if (!session.replay) return;
    looks_ += session.replay->requests.size();
    for (Request& request : session.replay->requests)
        if (request.filter == filter) {
            request.options = options;
            request.identifier = identifier;
        }
}

void Replay::pause(Session& session) {
    thread_.assert_here();
    if (!session.replay) return;
    awaited_.erase(session.replay->query);
    session.replay->query = 0;
    session.replay->asked = 0;
    session.replay->waiting = false;
    // Later changes are added to such a request, so it must start from the beginning.
    if (session.replay->requests.front().filter.empty()) begin_request(session);
}

}  // namespace pulsegate
