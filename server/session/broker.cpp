#include "server/session/broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <random>
#include <utility>

#include "protocol/encode.h"
#include "protocol/topic.h"
#include "server/log.h"

namespace pulsegate {

namespace {

/// QoS 1 messages that one client may leave unacknowledged, whatever its Receive Maximum.
constexpr std::uint16_t max_inflight = 256;

/// Levels that a filter may have. The topic tree is walked by recursion.
constexpr std::ptrdiff_t max_levels = 128;

constexpr std::size_t presence_page_size = 200;
constexpr std::string_view presence_prefix = "presence/";

/// Topics that no client publishes to: presence is the gateway's word, and `$` topics are the
/// server's own (MQTT 5.0, 4.7.2).
bool reserved(std::string_view topic) {
    return topic.starts_with('$') || topic.starts_with(presence_prefix);
}

/// The properties that travel with a message to its receivers (MQTT 5.0, 3.3.2.3).
std::string travelling(const Properties& properties) {
    PropertyList kept;
    properties.for_each([&](const PropertyValue& property) {
        switch (property.id) {
            case Property::payload_format_indicator:
            case Property::message_expiry_interval:
            case Property::content_type:
            case Property::response_topic:
            case Property::correlation_data:
            case Property::user_property: kept.add(property); break;
            default: break;
        }
    });
    return std::move(kept).take();
}

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

template <class AnyPacket>
void Broker::send(Session& session, const AnyPacket& packet) {
    Buffer bytes;
    encode(Packet(packet), session.version, bytes);
    counters_.count_out(static_cast<PacketType>(static_cast<std::uint8_t>(bytes[0]) >> 4));
    session.link->send(bytes);
}

// -- login
// ------------------------------------------------------------------------------------------

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
    if (connect.will && reserved(connect.will->topic))
        return refuse(link, connect, Reason::not_authorized, "the will's topic is reserved");
    if (connect.will && connect.version == Version::v5_0) {
        if (connect.will->qos == QoS::exactly_once)
            return refuse(link, connect, Reason::qos_not_supported, "QoS 2 is not offered");
        if (connect.will->retain)
            return refuse(link, connect, Reason::retain_not_supported,
                          "retained messages are not offered");
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

Session& Broker::take_over(Session& session, Link& link, Millis now) {
    ++counters_.takeovers;
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
    return session;
}

/// What a session forgets when its client starts clean, or goes.
void Broker::clear(Session& session) {
    router_.unsubscribe_all(session.subscriptions);
    session.outflow.reset();
    session.will.reset();
    if (std::exchange(session.catching_up, false))
        std::erase_if(catch_ups_,
                      [&](const auto& entry) { return &entry.second.session == &session; });
}

void Broker::accept(Session& session, const Connect& connect, bool assigned) {
    ++counters_.logins;
    session.version = connect.version;
    const auto& stated = connect.properties;
    session.max_packet_size = stated.number(Property::maximum_packet_size).value_or(0);
    session.receive_maximum = static_cast<std::uint16_t>(std::min<std::uint32_t>(
        stated.number(Property::receive_maximum).value_or(max_inflight), max_inflight));
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

// -- the end
// ----------------------------------------------------------------------------------------

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

// -- packets
// ----------------------------------------------------------------------------------------

void Broker::handle(Session& session, const Packet& packet) {
    struct Visitor {
        Broker& broker;
        Session& session;

        void operator()(const Publish& publish) { broker.on_publish(session, publish); }
        void operator()(const Puback& puback) { broker.on_puback(session, puback); }
        void operator()(const Subscribe& subscribe) { broker.on_subscribe(session, subscribe); }
        void operator()(const Unsubscribe& unsubscribe) {
            broker.on_unsubscribe(session, unsubscribe);
        }
        void operator()(const Pingreq&) { broker.send(session, Pingresp{}); }
        void operator()(const Disconnect& disconnect) {
            // Only the normal disconnection takes the will back (MQTT 5.0, 3.1.2.5): with 0x04 the
            // client asks for it, with the others it says that something is wrong.
            if (disconnect.reason != Reason::success && session.will)
                broker.publish(std::exchange(session.will, nullptr), nullptr);
            session.link->end({Cause::logout, Reason::success, "the client disconnected"});
        }
        void operator()(const Connect&) { misplaced("a second CONNECT"); }
        void operator()(const Auth&) { misplaced("AUTH without an authentication method"); }
        void operator()(const Pubrec&) { misplaced("PUBREC for a message of QoS 1 or less"); }
        void operator()(const Pubrel&) { misplaced("PUBREL for a message of QoS 1 or less"); }
        void operator()(const Pubcomp&) { misplaced("PUBCOMP for a message of QoS 1 or less"); }
        void operator()(const Connack&) { misplaced("a packet that only servers send"); }
        void operator()(const Suback&) { misplaced("a packet that only servers send"); }
        void operator()(const Unsuback&) { misplaced("a packet that only servers send"); }
        void operator()(const Pingresp&) { misplaced("a packet that only servers send"); }

        void misplaced(const char* why) {
            session.link->end({Cause::kicked, Reason::protocol_error, why});
        }
    };
    std::visit(Visitor{*this, session}, packet);
}

void Broker::on_publish(Session& session, const Publish& publish) {
    const auto kick = [&](Reason reason, const char* why) {
        session.link->end({Cause::kicked, reason, why});
    };
    if (publish.qos == QoS::exactly_once)
        return kick(Reason::qos_not_supported, "PUBLISH with QoS 2, which is not offered");
    if (publish.properties.number(Property::topic_alias))
        return kick(Reason::topic_alias_invalid, "PUBLISH with a topic alias, none was offered");
    if (publish.retain && session.version == Version::v5_0)
        return kick(Reason::retain_not_supported, "PUBLISH with retain, which is not offered");

    ++counters_.messages_in;
    Puback puback{.packet_id = publish.packet_id};
    if (reserved(publish.topic)) {
        ++counters_.dropped_forbidden;
        puback.reason = Reason::not_authorized;
        log_limited(spdlog::level::warn, "message of {} to the reserved topic {} dropped",
                    quoted(session.client), quoted(publish.topic));
    } else {
        if (publish.retain)
            log_limited(spdlog::level::warn, "message of {} to {} delivered, but not retained",
                        quoted(session.client), quoted(publish.topic));
        this->publish(
            std::make_shared<Message>(Message{.topic = std::string(publish.topic),
                                              .payload = std::string(publish.payload),
                                              .properties = travelling(publish.properties),
                                              .qos = publish.qos,
                                              .retain = publish.retain}),
            &session);
    }
    if (publish.qos == QoS::at_least_once) send(session, puback);
}

void Broker::on_puback(Session& session, const Puback& puback) {
    Outflow* outflow = session.outflow.get();
    const auto acknowledged = [&](const Outflow::Sent& sent) {
        return sent.packet_id == puback.packet_id;
    };
    if (outflow)
        if (const auto found =
                std::find_if(outflow->sent.begin(), outflow->sent.end(), acknowledged);
            found != outflow->sent.end()) {
            outflow->sent.erase(found);
            return refill_window(session);
        }
    session.link->end(
        {Cause::kicked, Reason::protocol_error, "PUBACK for a message that is not in flight"});
}

void Broker::refill_window(Session& session) {
    Outflow& outflow = *session.outflow;
    while (!outflow.waiting.empty() && outflow.sent.size() < session.receive_maximum) {
        const Outflow::Waiting next = std::move(outflow.waiting.front());
        outflow.waiting.pop_front();
        outflow.waiting_bytes -= next.message->payload.size() + next.message->topic.size();
        Publication publication(*next.message);
        transmit(session, next.message, publication, QoS::at_least_once, next.retain,
                 next.identifiers);
    }
    if (outflow.waiting.empty() && session.catching_up) session.link->tell_when_drained();
    if (outflow.waiting.empty() && outflow.sent.empty()) session.outflow.reset();
}

void Broker::on_subscribe(Session& session, const Subscribe& request) {
    const auto identifier =
        request.properties.number(Property::subscription_identifier).value_or(0);
    Suback suback{.packet_id = request.packet_id};
    for (const SubscribeFilter& wanted : request.filters)
        suback.reasons.push_back(subscribe(session, wanted, identifier));
    send(session, suback);
}

Reason Broker::subscribe(Session& session, const SubscribeFilter& wanted,
                         std::uint32_t identifier) {
    const auto refuse = [&](Reason reason) {
        log_limited(spdlog::level::warn, "subscription of {} to {} refused: {}",
                    quoted(session.client), quoted(wanted.filter), name(reason));
        return reason;
    };
    if (!valid_topic_filter(wanted.filter)) return refuse(Reason::topic_filter_invalid);
    if (std::count(wanted.filter.begin(), wanted.filter.end(), '/') >= max_levels)
        return refuse(Reason::quota_exceeded);
    if (shared_filter(wanted.filter)) return refuse(Reason::shared_subscriptions_not_supported);

    SubscribeOptions granted = wanted.options;
    granted.qos = std::min(granted.qos, QoS::at_least_once);
    const bool is_new =
        router_.subscribe(session, session.subscriptions, wanted.filter, granted, identifier);
    if (granted.retain_handling == 0 || (granted.retain_handling == 1 && is_new))
        start_catch_up(session, wanted, granted.qos, identifier);
    return static_cast<Reason>(granted.qos);
}

void Broker::on_unsubscribe(Session& session, const Unsubscribe& request) {
    Unsuback unsuback{.packet_id = request.packet_id};
    for (const auto filter : request.filters) {
        if (!valid_topic_filter(filter)) {
            unsuback.reasons.push_back(Reason::topic_filter_invalid);
            continue;
        }
        const bool existed = router_.unsubscribe(session.subscriptions, filter);
        if (existed) end_catch_ups(session, filter);
        unsuback.reasons.push_back(existed ? Reason::success : Reason::no_subscription_existed);
    }
    send(session, unsuback);
}

// -- messages
// ---------------------------------------------------------------------------------------

void Broker::publish(const MessageRef& message, const Session* publisher) {
    deliver_here(message, publisher);
    surroundings_.forward(message);
}

void Broker::deliver(const MessageRef& message) { deliver_here(message, nullptr); }

void Broker::deliver_here(const MessageRef& message, const Session* publisher) {
    Publication publication(*message);
    router_.match(message->topic, publisher, [&](const Match& match) {
        deliver(*match.session, message, publication, std::min(message->qos, match.qos),
                message->retain && match.retain_as_published, match.identifiers);
    });
}

void Broker::deliver(Session& session, const MessageRef& message, Publication& publication, QoS qos,
                     bool retain, const std::vector<std::uint32_t>& identifiers) {
    if (qos == QoS::at_most_once) {
        transmit(session, message, publication, qos, retain, identifiers);
        return;
    }
    if (!session.outflow) session.outflow = std::make_unique<Outflow>();
    Outflow& outflow = *session.outflow;
    if (outflow.waiting.empty() && outflow.sent.size() < session.receive_maximum) {
        transmit(session, message, publication, qos, retain, identifiers);
        return;
    }
    outflow.waiting.push_back({message, retain, identifiers});
    outflow.waiting_bytes += message->payload.size() + message->topic.size();
    if (outflow.waiting_bytes <= settings_.output_budget) return;
    session.link->end({Cause::kicked, Reason::quota_exceeded,
                       "slow consumer: too many messages wait for its acknowledgements"});
}

/// False if the message can't be sent to this client at all.
bool Broker::transmit(Session& session, const MessageRef& message, Publication& publication,
                      QoS qos, bool retain, const std::vector<std::uint32_t>& identifiers) {
    const bool counted = qos != QoS::at_most_once;
    const std::uint16_t packet_id = counted ? session.next_packet_id() : 0;
    const auto packet = publication.packet(session.version, qos, retain, packet_id, identifiers);
    if (session.max_packet_size != 0 && packet.size() > session.max_packet_size) {
        // MQTT 5.0, 3.1.2.11.4: what the client can't take is treated as if it had been sent.
        ++counters_.dropped_too_large;
        log_limited(
            spdlog::level::warn, "message to {} on {} dropped: {} bytes, its client takes {}",
            quoted(session.client), quoted(message->topic), packet.size(), session.max_packet_size);
        return false;
    }
    if (counted) session.outflow->sent.push_back({packet_id, message});
    ++counters_.messages_out;
    counters_.count_out(PacketType::publish);
    session.link->send(packet);
    return true;
}

// -- presence
// ---------------------------------------------------------------------------------------

void Broker::announce(const User& user, Millis now, const Device& device) {
    surroundings_.record({.time = wall_now(),
                          .user = user.name,
                          .online = user.online(),
                          .cause = user.cause,
                          .version = user.version,
                          .client = device.client,
                          .silent = now - device.last_packet()});
    publish(presence_message(user, now), nullptr);
}

MessageRef Broker::presence_message(const User& user, Millis now) const {
    return std::make_shared<Message>(Message{.topic = presence_topic(user.name),
                                             .payload = to_json(user, now, wall_now()),
                                             .properties = {},
                                             .qos = QoS::at_least_once,
                                             .retain = true});
}

std::optional<std::string> Broker::describe(std::string_view name, Millis now) const {
    const User* user = presence_.find(name);
    if (!user) return std::nullopt;
    return to_json(*user, now, wall_now());
}

void Broker::tick() { presence_.forget_some(wall_now() - settings_.forget_after); }

void Broker::start_catch_up(Session& session, const SubscribeFilter& wanted, QoS qos,
                            std::uint32_t identifier) {
    const auto user = presence_user(wanted.filter);
    if (!user && !selects_presence(wanted.filter)) return;
    const auto id = next_catch_up_++;
    const unsigned first = user ? home(*user, shards_) : 0;
    CatchUp catch_up{.session = session,
                     .filter = std::string(wanted.filter),
                     .qos = qos,
                     .identifier = identifier,
                     .shard = first,
                     .last_shard = user ? first : shards_ - 1,
                     .from = SIZE_MAX};
    session.catching_up = true;
    ask_on(id, catch_ups_.emplace(id, std::move(catch_up)).first->second);
}

void Broker::ask_on(std::uint64_t id, CatchUp& catch_up) {
    catch_up.waiting = false;
    surroundings_.ask({shard_, catch_up.shard, id, catch_up.filter, catch_up.from});
}

PresencePage Broker::answer(const PresenceQuestion& question, Millis now) {
    PresencePage page{.catch_up = question.catch_up, .next = 0, .messages = {}};
    if (const auto name = presence_user(question.filter)) {
        const User* user = presence_.find(*name);
        if (user) page.messages.push_back(presence_message(*user, now));
        return page;
    }
    // Names may be long: the page must not take the subscriber's budget for itself.
    std::size_t room = settings_.output_budget / 4;
    page.next = presence_.visit(question.from, presence_page_size, [&](const User& user) {
        if (!topic_matches(question.filter, presence_topic(user.name))) return true;
        const auto& message = *page.messages.emplace_back(presence_message(user, now));
        const auto size = message.topic.size() + message.payload.size();
        room -= std::min(room, size);
        return room > 0;
    });
    return page;
}

void Broker::continue_catch_up(const PresencePage& page) {
    const auto found = catch_ups_.find(page.catch_up);
    if (found == catch_ups_.end()) return;  // the subscriber has gone
    CatchUp& catch_up = found->second;
    Session& session = catch_up.session;
    const std::vector<std::uint32_t> identifiers(catch_up.identifier != 0, catch_up.identifier);
    for (const MessageRef& message : page.messages) {
        Publication publication(*message);
        deliver(session, message, publication, std::min(message->qos, catch_up.qos), true,
                identifiers);
    }

    catch_up.from = page.next;
    if (page.next == 0) {
        if (catch_up.shard == catch_up.last_shard) {
            catch_ups_.erase(found);
            return note_catch_ups(session);
        }
        ++catch_up.shard;
        catch_up.from = SIZE_MAX;
    }
    if (page.messages.empty()) return ask_on(page.catch_up, catch_up);
    catch_up.waiting = true;
    session.link->tell_when_drained();
}

/// Who unsubscribes is told no more (MQTT 5.0, 3.10.4).
void Broker::end_catch_ups(Session& session, std::string_view filter) {
    if (!session.catching_up) return;
    std::erase_if(catch_ups_, [&](const auto& entry) {
        return &entry.second.session == &session && entry.second.filter == filter;
    });
    note_catch_ups(session);
}

void Broker::note_catch_ups(Session& session) {
    session.catching_up = std::any_of(catch_ups_.begin(), catch_ups_.end(), [&](const auto& entry) {
        return &entry.second.session == &session;
    });
}

void Broker::drained(Session& session) {
    if (!session.catching_up) return;
    if (session.outflow && !session.outflow->waiting.empty()) return;  // refill_window asks again
    for (auto& [id, catch_up] : catch_ups_)
        if (&catch_up.session == &session && catch_up.waiting) ask_on(id, catch_up);
}

}  // namespace pulsegate
