#include "server/session/broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <utility>

#include "server/log.h"

namespace pulsegate {

namespace {

/// Above so many known users, those who are offline are forgotten after a minute: a stream of
/// clients with names of the moment must not fill the memory.
constexpr std::size_t most_known = 1'000'000;
constexpr std::size_t most_name_bytes = 64 * 1024 * 1024;
constexpr WallMillis when_crowded = 60'000;

/// Sessions that end in one turn, each with a will, maybe; the others wait for the next.
constexpr int sessions_a_turn = 64;

/// Sessions of one user that are kept at the cost of others' when there are too many.
constexpr std::uint32_t most_of_one_user = 100;

/// The memory that a session takes while its client is away, about, but for its queue.
std::size_t size_of(const Session& session) {
    std::size_t size = 500 + session.client.size() + session.user.name.size();
    for (const Subscription& subscription : session.subscriptions)
        size += 200 + subscription.filter->text().size();
    if (session.testament) size += session.testament->message.cost();
    return size;
}

}  // namespace

std::size_t Broker::Hash::operator()(const Key& key) const {
    // The address first: nobody can choose client ids that collide.
    std::size_t seed = boost::hash<const User*>()(&key.user);
    boost::hash_combine(seed, key.client);
    return seed;
}
std::size_t Broker::Hash::operator()(const Session* session) const {
    return (*this)(Key{session->user, session->client});
}
bool Broker::Equal::operator()(const Key& key, const Session* session) const {
    return &session->user == &key.user && session->client == key.client;
}

Broker::Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Interest& interest,
               Store& store, Counters& counters, Surroundings& surroundings)
    : settings_(settings),
      shard_(shard),
      shards_(shards),
      store_(store),
      counters_(counters),
      surroundings_(surroundings),
      router_(interest),
      groups_(interest),
      retained_({settings.max_retained_messages, settings.max_retained_bytes}),
      next_session_(shards + shard) {}

Broker::~Broker() {
    for (Session* session : sessions_) {
        router_.unsubscribe_all(session->subscriptions);
        delete session;
    }
}

unsigned Broker::home(std::string_view name, unsigned shards) {
    return static_cast<unsigned>(boost::hash<std::string_view>()(name) % shards);
}

// -- how sessions end
// -----------------------------------------------------------------------------------

void Broker::end(Session& session, const Ending& ending, Millis now) {
    now_ = now;
    const Millis silent = now - session.last_packet();
    session.link->session = nullptr;
    session.link = nullptr;
    session.aliases.reset();
    session.pass.reset();

    const bool survives = session.expiry > 0 && ending.cause != Cause::shutdown;
    if (survives)
        interrupt(session);
    else
        clear(session);
    // A server that stops may keep its clients' wills to itself (MQTT 5.0, 3.1.2.5).
    if (ending.cause == Cause::shutdown) session.testament.reset();
    if (session.testament && (!survives || session.testament->delay == 0))
        execute_testament(session);

    const WallMillis wall = wall_now();
    if (presence_.depart(session.user, session, ending.cause, wall, wall - silent))
        announce(session.user, session, silent);
    if (survives)
        begin_absence(session);
    else
        destroy(session);
}

/// The client starts clean, or its session ends: everything goes but its will.
void Broker::clear(Session& session) {
    if (session.shares > 0) tell_groups(session, Membership::Change::leaves);
    give_back_shared(session, true);
    if (std::exchange(session.shares, 0) > 0) sharing_.erase(session.id);
    router_.unsubscribe_all(session.subscriptions);
    session.unlink();  // its will may be for its user's devices, and it is none of them any more
    session.subscription_count = 0;
    session.last_packet_id = 0;
    pause_catch_up(session);
    session.catch_up.reset();
    if (!session.flow) return;
    waiting_ -= session.flow->waiting;
    waiting_bytes_ -= session.flow->waiting_bytes;
    store_.forget(session.id);
    session.flow.reset();
}

/// The session goes on, but not this connection.
void Broker::interrupt(Session& session) {
    if (session.flow) session.flow->interrupt();
    if (!session.absence) {
        if (session.shares > 0) tell_groups(session, Membership::Change::goes_away);
        give_back_shared(session, false);
    }
    pause_catch_up(session);
}

void Broker::begin_absence(Session& session) {
    const Tick ends = tick_after(now_ + Millis{session.expiry} * 1000);
    session.absence = std::make_unique<Absence>(session, ends);
    session.absence->bytes = size_of(session);
    // Seconds are compared, not ticks: the longest delay is more of those than there are.
    const auto delay =
        session.testament ? std::min(session.testament->delay, session.expiry) : session.expiry;
    absences_.schedule(*session.absence, tick_after(now_ + Millis{delay} * 1000));
    longest_absent_.push_back(*session.absence);
    ++absent_;
    absent_bytes_ += session.absence->bytes;
    const auto quota = std::max<std::size_t>(settings_.persistent_session_quota / shards_, 1);
    if (absent_ <= quota) return;
    // Nobody pushes others out with clients of the moment.
    const bool hoards = session.user.sessions > most_of_one_user;
    ++counters_.sessions_over_quota;
    end_absent(hoards ? session : longest_absent_.front().session,
               "more sessions are away than persistent-session-quota");
}

void Broker::end_absence(Session& session) {
    if (!session.absence) return;
    --absent_;
    absent_bytes_ -= session.absence->bytes;
    session.absence.reset();
}

/// True if there is more to do.
bool Broker::make_room() {
    const auto most = settings_.persistent_session_bytes / shards_;
    for (int left = sessions_a_turn; absent_ > 0 && absent_bytes_ + waiting_bytes_ > most; --left) {
        if (left == 0) return true;
        ++counters_.sessions_over_quota;
        end_absent(longest_absent_.front().session,
                   "sessions that are away take more than persistent-session-bytes");
    }
    return false;
}

void Broker::expire(Absence& absence) {
    Session& session = absence.session;
    if (absences_.now() >= absence.ends) {
        ++counters_.sessions_expired;
        return end_absent(session, "its client stayed away too long");
    }
    execute_testament(session);
    absences_.schedule(absence, absence.ends);
}

void Broker::end_absent(Session& session, const char* why) {
    const auto waiting =
        session.flow ? session.flow->waiting + session.flow->interrupted.size() : 0;
    counters_.dropped_session_ended += waiting;
    log_limited(waiting > 0 ? spdlog::level::warn : spdlog::level::info,
                "session of client {} of user {} ended: {}; {} messages that waited are lost",
                quoted(session.client), quoted(session.user.name), why, waiting);
    clear(session);
    execute_testament(session);
    end_absence(session);
    destroy(session);
}

void Broker::destroy(Session& session) {
    sessions_.erase(&session);
    delete &session;
}

/// Publishes the client's will, if it left one.
void Broker::execute_testament(Session& session) {
    const auto testament = std::move(session.testament);
    if (!testament) return;
    Message& will = testament->message;
    if (testament->lives) will.expires = now_ + Millis{*testament->lives} * 1000;
    publish(std::move(will), &session);
}

void Broker::announce_shutdown(Millis now) {
    now_ = now;
    const WallMillis wall = wall_now();
    for (Session* session : sessions_) {
        if (!session->link) continue;
        const Millis silent = now - session->last_packet();
        if (presence_.depart(session->user, *session, Cause::shutdown, wall, wall - silent))
            announce(session->user, *session, silent);
    }
}

// -- presence
// -----------------------------------------------------------------------------------------------

void Broker::announce(const User& user, const Device& device, Millis silent) {
    surroundings_.record({.time = wall_now(),
                          .user = user.name,
                          .online = user.online(),
                          .cause = user.cause,
                          .version = user.version,
                          .client = device.client,
                          .silent = silent});
    if (const auto message = presence_message(user)) deliver_everywhere(message, nullptr);
}

MessageRef Broker::presence_message(const User& user) const {
    auto topic = presence_topic(user.name);
    constexpr std::size_t longest_topic = 65'535;
    if (topic.size() > longest_topic) return nullptr;
    return std::make_shared<Message>(Message{.topic = std::move(topic),
                                             .payload = to_json(user, now_, wall_now()),
                                             .properties = {},
                                             .qos = QoS::at_least_once,
                                             .retain = true,
                                             .presence_version = user.version});
}

std::optional<std::string> Broker::describe(std::string_view name, Millis now) const {
    const User* user = presence_.find(name);
    if (!user) return std::nullopt;
    return to_json(*user, now, wall_now());
}

// -- time
// ----------------------------------------------------------------------------------------------

bool Broker::tick(Millis now) {
    now_ = now;
    const bool crowded = presence_.users() > most_known || presence_.name_bytes() > most_name_bytes;
    const auto kept =
        crowded ? std::min(settings_.forget_after, when_crowded) : settings_.forget_after;
    if (tick_at(now) != absences_.now()) {
        presence_.forget_some(wall_now() - kept);
        retained_.forget_some(now);
    }
    passes_.advance(tick_at(now), [this](StackedWheel::Node& node) {
        kick(static_cast<Pass&>(node).session, Reason::maximum_connect_time,
             "what it was let in with has expired");
    });
    const bool more_due = absences_.advance(
        tick_at(now), [this](StackedWheel::Node& node) { expire(static_cast<Absence&>(node)); },
        sessions_a_turn);
    return make_room() || more_due;
}

}  // namespace pulsegate
