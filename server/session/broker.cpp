#include "server/session/broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <random>
#include <utility>

#include "protocol/encode.h"
#include "server/log.h"

namespace pulsegate {

namespace {

/// QoS 1 messages that one client may leave unacknowledged, whatever its Receive Maximum.
constexpr std::uint16_t max_inflight = 256;

/// Above so many known users, those who are offline are forgotten after a minute: a stream of
/// clients with names of the moment must not fill the memory.
constexpr std::size_t most_known = 1'000'000;
constexpr std::size_t most_name_bytes = 64 * 1024 * 1024;
constexpr WallMillis when_crowded = 60'000;

}  // namespace

std::size_t Broker::Hash::operator()(const Key& key) const {
    std::size_t seed = boost::hash<std::string_view>()(key.client);
    boost::hash_combine(seed, &key.user);
    return seed;
}
std::size_t Broker::Hash::operator()(const Session* session) const {
    return (*this)(Key{session->user, session->client});
}
bool Broker::Equal::operator()(const Key& key, const Session* session) const {
    return &session->user == &key.user && session->client == key.client;
}

Broker::Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Counters& counters,
               Surroundings& surroundings)
    : settings_(settings),
      shard_(shard),
      shards_(shards),
      counters_(counters),
      surroundings_(surroundings) {}

Broker::~Broker() {
    for (Session* session : sessions_) {
        router_.unsubscribe_all(session->subscriptions);
        delete session;
    }
}

unsigned Broker::home(std::string_view user, unsigned shards) {
    return static_cast<unsigned>(boost::hash<std::string_view>()(user) % shards);
}

unsigned Broker::home(const Connect& connect) const {
    const auto user = user_name(connect, connect.client_id);
    return user.empty() ? shard_ : home(user, shards_);
}

std::string_view Broker::user_name(const Connect& connect, std::string_view client) const {
    const bool named = connect.username && !connect.username->empty();
    return named && settings_.user_from == UserFrom::username ? *connect.username : client;
}

std::string Broker::assign_client_id(const Connect& connect) const {
    thread_local std::mt19937_64 random{std::random_device{}()};
    while (true) {
        auto id = fmt::format("auto-{:016x}", random());
        // The id may be the user's name too, and then it must be one whose home is here.
        const auto user = user_name(connect, id);
        if (user != id || home(user, shards_) == shard_) return id;
    }
}

void Broker::refuse(Link& link, const Connect& connect, Reason reason, const char* why) {
    ++counters_.logins_refused;
    log_limited(spdlog::level::warn, "login of client {} refused: {}", quoted(connect.client_id),
                why);
    PropertyList properties;
    properties.add(Property::reason_string, why);
    Buffer bytes;
    encode(Connack{.reason = reason, .properties = properties.view()}, connect.version, bytes);
    counters_.count_out(PacketType::connack);
    link.send(bytes);
    link.end({Cause::kicked, Reason::success, why});
}

void Broker::login(Link& link, const Connect& connect, Millis now) {
    const bool unnamed = connect.client_id.empty();
    if (unnamed && connect.version == Version::v3_1_1 && !connect.clean_start)
        return refuse(link, connect, Reason::client_identifier_not_valid,
                      "an empty client id needs a clean session");
    if (connect.properties.text(Property::authentication_method))
        return refuse(link, connect, Reason::bad_authentication_method,
                      "enhanced authentication is not offered");
    if (connect.will && reserved_topic(connect.will->topic))
        return refuse(link, connect, Reason::not_authorized, "the will's topic is reserved");
    if (connect.will && connect.version == Version::v5_0) {
        if (connect.will->qos == QoS::exactly_once)
            return refuse(link, connect, Reason::qos_not_supported,
                          "the will has QoS 2, which is not offered");
        if (connect.will->retain)
            return refuse(link, connect, Reason::retain_not_supported,
                          "the will is to be retained, which is not offered");
    }

    std::string client = unnamed ? assign_client_id(connect) : std::string(connect.client_id);
    User& user = presence_.find_or_create(user_name(connect, client));
    if (const auto found = sessions_.find(Key{user, client}); found != sessions_.end()) {
        take_over(**found, link, now);
        return accept(**found, connect, unnamed);
    }
    auto* session = new Session(user, std::move(client), wall_now());
    session->link = &link;
    link.session = session;
    sessions_.insert(session);
    accept(*session, connect, unnamed);
    if (presence_.arrive(user, *session, session->since)) announce(user, now, *session);
}

void Broker::take_over(Session& session, Link& link, Millis now) {
    ++counters_.takeovers;
    log_limited(spdlog::level::info, "client {} of user {}: taken over by another connection",
                quoted(session.client), quoted(session.user.name));
    session.link->session = nullptr;
    session.link->end({Cause::taken_over, Reason::session_taken_over,
                       "another connection took the session over"});
    session.link = &link;
    link.session = &session;
    const MessageRef will = std::move(session.will);
    clear(session);
    if (will) publish(will, nullptr);
    session.since = wall_now();
    presence_.taken_over(session.user, session.since);
    announce(session.user, now, session);
}

/// What a session forgets when its client starts clean, or goes.
void Broker::clear(Session& session) {
    router_.unsubscribe_all(session.subscriptions);
    session.subscription_count = 0;
    session.last_packet_id = 0;
    session.outflow.reset();
    session.will.reset();
    end_catch_up(session);
}

void Broker::accept(Session& session, const Connect& connect, bool assigned) {
    ++counters_.logins;
    session.version = connect.version;
    const auto& stated = connect.properties;
    session.max_packet_size = stated.number(Property::maximum_packet_size).value_or(0);
    session.receive_maximum = static_cast<std::uint16_t>(std::min<std::uint32_t>(
        stated.number(Property::receive_maximum).value_or(max_inflight), max_inflight));
    session.link->set_largest_packet(session.max_packet_size);
    session.will = make_will(connect);

    PropertyList told;
    session.link->set_limit(agree_on_silence(connect, told));
    told.add(Property::maximum_qos, 1);
    told.add(Property::retain_available, std::uint32_t{0});
    told.add(Property::shared_subscription_available, std::uint32_t{0});
    told.add(Property::maximum_packet_size, static_cast<std::uint32_t>(settings_.max_packet_size));
    if (stated.number(Property::session_expiry_interval).value_or(0) != 0)
        told.add(Property::session_expiry_interval, std::uint32_t{0});
    if (assigned) told.add(Property::assigned_client_identifier, session.client);
    send(session, Connack{.properties = told.view()});
}

Millis Broker::agree_on_silence(const Connect& connect, PropertyList& told) const {
    // MQTT 5.0, 3.1.2.10: silence for one and a half keepalives means the client is gone.
    const Millis asked = Millis{connect.keepalive} * 1500;
    if (connect.version == Version::v5_0 && (asked == 0 || asked > settings_.idle_timeout)) {
        const Millis keepalive = std::max<Millis>(settings_.idle_timeout / 1500, 1);
        told.add(Property::server_keep_alive, static_cast<std::uint32_t>(keepalive));
        return std::max(settings_.idle_timeout, keepalive * 1500);
    }
    // A 3.1.1 client can't be told, so what it asks for is honoured, unless the company is strict.
    if (asked == 0) return settings_.idle_timeout;
    return settings_.strict_idle_timeout ? std::min(asked, settings_.idle_timeout) : asked;
}

MessageRef Broker::make_will(const Connect& connect) const {
    if (!connect.will) return nullptr;
    const Will& will = *connect.will;
    return std::make_shared<Message>(Message{.topic = std::string(will.topic),
                                             .payload = std::string(will.payload),
                                             .properties = travelling(will.properties),
                                             .qos = will.qos,
                                             .retain = will.retain});
}

void Broker::end(Session& session, const Ending& ending, Millis now) {
    const Millis silent = now - session.last_packet();
    if (session.outflow && ending.reason == Reason::quota_exceeded) {
        counters_.dropped_slow += session.outflow->waiting.size();
        log_limited(spdlog::level::warn, "client {} lost {} messages that waited for it",
                    quoted(session.client), session.outflow->waiting.size());
    }
    const bool leaves_no_will = ending.cause == Cause::logout || ending.cause == Cause::shutdown;
    const MessageRef will = leaves_no_will ? nullptr : std::move(session.will);
    clear(session);
    if (will) publish(will, nullptr);

    const WallMillis wall = wall_now();
    if (presence_.depart(session.user, session, ending.cause, wall, wall - silent))
        announce(session.user, now, session);
    session.link->session = nullptr;
    sessions_.erase(&session);
    delete &session;
}

void Broker::announce_shutdown(Millis now) {
    const WallMillis wall = wall_now();
    for (Session* session : sessions_) {
        const Millis silent = now - session->last_packet();
        if (presence_.depart(session->user, *session, Cause::shutdown, wall, wall - silent))
            announce(session->user, now, *session);
    }
}

void Broker::announce(const User& user, Millis now, const Device& device) {
    surroundings_.record({.time = wall_now(),
                          .user = user.name,
                          .online = user.online(),
                          .cause = user.cause,
                          .version = user.version,
                          .client = device.client,
                          .silent = now - device.last_packet()});
    if (const auto message = presence_message(user, now)) publish(message, nullptr);
}

MessageRef Broker::presence_message(const User& user, Millis now) const {
    auto topic = presence_topic(user.name);
    constexpr std::size_t longest_topic = 65'535;
    if (topic.size() > longest_topic) return nullptr;
    return std::make_shared<Message>(Message{.topic = std::move(topic),
                                             .payload = to_json(user, now, wall_now()),
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

void Broker::tick() {
    const bool crowded = presence_.users() > most_known || presence_.name_bytes() > most_name_bytes;
    const auto kept =
        crowded ? std::min(settings_.forget_after, when_crowded) : settings_.forget_after;
    presence_.forget_some(wall_now() - kept);
}

}  // namespace pulsegate
