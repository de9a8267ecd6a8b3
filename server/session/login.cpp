// CONNECT: who may come in, whose session it is, and what is agreed with the client.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "protocol/encode.h"
#include "protocol/topic.h"
#include "server/log.h"
#include "server/session/broker.h"

namespace pulsegate {

unsigned Broker::home(const Connect& connect, const Verdict& verdict) const {
    const auto user = user_name(connect, verdict, connect.client_id);
    return user.empty() ? shard_ : home(user, shards_);
}

std::string_view Broker::user_name(const Connect& connect, const Verdict& verdict,
                                   std::string_view client) const {
    if (!verdict.user.empty()) return verdict.user;
    const bool named = connect.username && !connect.username->empty();
    return named && settings_.user_from != UserFrom::client_id ? *connect.username : client;
}

std::string Broker::assign_client_id(const Connect& connect, const Verdict& verdict) const {
    thread_local std::mt19937_64 random{std::random_device{}()};
    while (true) {
        auto id = fmt::format("auto-{:016x}", random());
        // The id may be the user's name too, and then it must be one whose home is here.
        const auto user = user_name(connect, verdict, id);
        if (user != id || home(user, shards_) == shard_) return id;
    }
}

void Broker::refuse(Link& link, const Connect& connect, Reason reason, std::string_view why,
                    const char* told) {
    ++counters_.logins_refused;
    log_limited(spdlog::level::warn, "{} client {} as user {}: login refused: {}", link.peer(),
                quoted(connect.client_id), quoted(connect.username.value_or("")), why);
    PropertyList properties;
    properties.add(Property::reason_string, told ? std::string_view(told) : why);
    Buffer bytes;
    encode(Connack{.reason = reason, .properties = properties.view()}, connect.version, bytes);
    const auto most = connect.properties.number(Property::maximum_packet_size);
    if (most && bytes.size() > *most) {
        bytes.clear();
        encode(Connack{.reason = reason}, connect.version, bytes);
    }
    counters_.count_out(PacketType::connack);
    link.send(bytes);
    link.end({Cause::kicked, Reason::success, ""});
}

std::optional<Broker::Refusal> Broker::objection_to_login(const Connect& connect) const {
    const bool v5 = connect.version == Version::v5_0;
    if (connect.client_id.empty() && !v5 && !connect.clean_start)
        return Refusal{Reason::client_identifier_not_valid,
                       "an empty client id needs a clean session"};
    if (connect.properties.text(Property::authentication_method))
        return Refusal{Reason::bad_authentication_method, "enhanced authentication is not offered"};
    if (!connect.will) return std::nullopt;

    const Will& will = *connect.will;
    if (reserved_topic(will.topic))
        return Refusal{Reason::not_authorized, "the will's topic is reserved"};
    if (will.topic.size() > settings_.max_topic_length)
        return Refusal{Reason::topic_name_invalid,
                       "the will's topic is longer than max-topic-length", Limit::max_topic_length};
    if (v5 && will.qos > settings_.max_qos)
        return Refusal{Reason::qos_not_supported, "the will's QoS is higher than max-qos"};
    if (v5 && will.retain && !settings_.retain_available)
        return Refusal{Reason::retain_not_supported,
                       "the will is to be retained, and retain-available is off"};
    const bool says_text = will.properties.number(Property::payload_format_indicator) == 1;
    if (says_text && !valid_utf8(will.payload))
        return Refusal{Reason::payload_format_invalid, "the will's payload is not UTF-8"};
    return std::nullopt;
}

void Broker::login(Link& link, const Connect& connect, const Verdict& verdict, Millis now) {
    now_ = now;
    if (const auto refusal = objection_to_login(connect)) {
        if (refusal->limit) counters_.count(*refusal->limit);
        return refuse(link, connect, refusal->reason, refusal->why);
    }

    const bool unnamed = connect.client_id.empty();
    std::string client =
        unnamed ? assign_client_id(connect, verdict) : std::string(connect.client_id);
    const auto name = user_name(connect, verdict, client);
    const AccessRules* const rules = verdict.rules ? verdict.rules.get() : rules_.get();
    if (rules && connect.will && !rules->may_publish({name, client}, connect.will->topic))
        return refuse(link, connect, Reason::not_authorized, "it may not publish its will");
    User& user = presence_.find_or_create(name);
    if (crowds(user, client)) {
        counters_.count(Limit::max_connections_per_user);
        return refuse(link, connect, Reason::quota_exceeded,
                      "its user has max-connections-per-user already");
    }
    Session& session = find_or_create(user, std::move(client));
    const bool takes_over = session.link;
    const bool resumed = !connect.clean_start && session.expiry > 0;

    if (takes_over) let_go(session);
    // MQTT 5.0, 3.1.3.2.2: coming back within the delay takes the will back, unless the session
    // that it belongs to ends here.
    if (resumed && session.testament && session.testament->delay > 0) session.testament.reset();
    if (resumed)
        interrupt(session);
    else
        clear(session);
    execute_testament(session);
    end_absence(session);

    session.link = &link;
    link.session = &session;
    session.since = wall_now();
    session.pass = pass_of(session, verdict);
    accept(session, connect, unnamed, resumed);
    if (takes_over)
        presence_.taken_over(user, session, session.since);
    else if (!presence_.arrive(user, session, session.since))
        return;
    announce(user, session, 0);
}

/// Would this client be one more than its user may have here?
bool Broker::crowds(const User& user, std::string_view client) const {
    const auto most = settings_.max_connections_per_user;
    if (most == 0 || user.here < most) return false;
    const Session* known = find(user.name, client);
    return !known || !known->link;
}

const Session* Broker::find(std::string_view name, std::string_view client) const {
    const User* user = presence_.find(name);
    if (!user) return nullptr;
    const auto found = sessions_.find(Key{*user, client});
    return found == sessions_.end() ? nullptr : *found;
}

Session& Broker::find_or_create(User& user, std::string client) {
    const auto found = sessions_.find(Key{user, client});
    if (found != sessions_.end()) return **found;
    auto* session = new Session(next_session_, user, std::move(client), wall_now());
    next_session_ += shards_;
    sessions_.insert(session);
    return *session;
}

/// Null for who needs none.
std::unique_ptr<Pass> Broker::pass_of(Session& session, const Verdict& verdict) {
    if (!verdict.rules && !verdict.expiry) return nullptr;
    auto pass = std::make_unique<Pass>(session);
    pass->rules = verdict.rules;
    if (verdict.expiry) {
        constexpr std::int64_t ten_years = 3650ll * 86'400;
        const auto left = std::clamp<std::int64_t>(*verdict.expiry - unix_now(), 0, ten_years);
        passes_.schedule(*pass, tick_after(now_ + left * 1000));
    }
    return pass;
}

/// Null: everything is allowed.
const AccessRules* Broker::rules_of(const Session& session) const {
    return session.pass && session.pass->rules ? session.pass->rules.get() : rules_.get();
}

/// Another connection takes the session over.
void Broker::let_go(Session& session) {
    ++counters_.takeovers;
    log_limited(spdlog::level::info, "client {} of user {}: taken over by another connection",
                quoted(session.client), quoted(session.user.name));
    session.link->session = nullptr;
    session.link->end({Cause::taken_over, Reason::session_taken_over,
                       "another connection took the session over"});
    session.link = nullptr;
}

void Broker::accept(Session& session, const Connect& connect, bool assigned, bool resumed) {
    ++counters_.logins;
    const auto& stated = connect.properties;
    const auto at_most = [&](Property id, std::uint32_t usual, std::uint16_t most) {
        return static_cast<std::uint16_t>(
            std::min<std::uint32_t>(stated.number(id).value_or(usual), most));
    };
    session.version = connect.version;
    session.max_packet_size = stated.number(Property::maximum_packet_size).value_or(0);
    session.receive_maximum = at_most(Property::receive_maximum, 65'535, settings_.max_inflight);
    session.wants_reasons = stated.number(Property::request_problem_information) == 1;
    session.expiry = agree_on_expiry(connect);
    session.testament = testament_of(connect);
    session.aliases.reset();
    if (const auto aliases =
            at_most(Property::topic_alias_maximum, 0, settings_.topic_alias_maximum)) {
        session.aliases = std::make_unique<Aliases>();
        session.aliases->outgoing_maximum = aliases;
    }
    session.link->set_largest_packet(session.max_packet_size);

    PropertyList told;
    session.link->set_limit(agree_on_silence(connect, told));
    told.add(Property::receive_maximum, settings_.receive_maximum);
    if (settings_.max_qos != QoS::exactly_once)
        told.add(Property::maximum_qos, static_cast<std::uint32_t>(settings_.max_qos));
    if (!settings_.retain_available) told.add(Property::retain_available, std::uint32_t{0});
    told.add(Property::maximum_packet_size, static_cast<std::uint32_t>(settings_.max_packet_size));
    told.add(Property::topic_alias_maximum, settings_.topic_alias_maximum);
    if (!settings_.wildcard_subscriptions)
        told.add(Property::wildcard_subscription_available, std::uint32_t{0});
    if (!settings_.shared_subscriptions)
        told.add(Property::shared_subscription_available, std::uint32_t{0});
    if (stated.number(Property::session_expiry_interval).value_or(0) != session.expiry)
        told.add(Property::session_expiry_interval, session.expiry);
    if (assigned) told.add(Property::assigned_client_identifier, session.client);
    // A long name is longer yet as one level of a topic, and then nobody can write to its inbox.
    if (const auto inbox = inbox_topic(session.user.name);
        inbox.size() <= 65'535 && stated.number(Property::request_response_information) == 1)
        told.add(Property::response_information, inbox);
    Buffer connack;
    encode(Connack{.session_present = resumed, .properties = told.view()}, session.version,
           connack);
    if (session.max_packet_size != 0 && connack.size() > session.max_packet_size)
        // Nor may it hear a DISCONNECT before its CONNACK (MQTT 5.0, 3.2.0-1).
        return session.link->end({Cause::kicked, Reason::success,
                                  "its Maximum Packet Size leaves no room for the CONNACK"});
    counters_.count_out(PacketType::connack);
    session.link->send(connack);
    if (resumed) resume(session);
}

Millis Broker::agree_on_silence(const Connect& connect, PropertyList& told) const {
    // MQTT 5.0, 3.1.2.10: silence for one and a half keepalives means the client is gone.
    const auto usual =
        std::max<std::uint32_t>(static_cast<std::uint32_t>(settings_.idle_timeout / 1500), 1);
    const auto longest = settings_.max_keepalive ? settings_.max_keepalive : usual;
    const auto silence = [&](std::uint32_t keepalive) {
        // The usual keepalive is rounded down to seconds, and its limit must not be.
        return keepalive == usual ? std::max(settings_.idle_timeout, Millis{keepalive} * 1500)
                                  : Millis{keepalive} * 1500;
    };
    const std::uint32_t asked = connect.keepalive;
    if (connect.version == Version::v5_0) {
        if (asked != 0 && asked <= longest) return Millis{asked} * 1500;
        const auto keepalive = asked == 0 ? std::min(usual, longest) : longest;
        told.add(Property::server_keep_alive, keepalive);
        return silence(keepalive);
    }
    // A 3.1.1 client can't be told, so what it asks for is honoured, unless the company is strict.
    if (asked == 0) return settings_.idle_timeout;
    const Millis limit = Millis{asked} * 1500;
    return settings_.strict_idle_timeout ? std::min(limit, settings_.idle_timeout) : limit;
}

/// In seconds. A 3.1.1 client that wants to keep its session can't say for how long.
std::uint32_t Broker::agree_on_expiry(const Connect& connect) const {
    const auto most = static_cast<std::uint32_t>(settings_.max_session_expiry / 1000);
    if (connect.version == Version::v3_1_1) return connect.clean_start ? 0 : most;
    return std::min(connect.properties.number(Property::session_expiry_interval).value_or(0), most);
}

std::unique_ptr<Testament> Broker::testament_of(const Connect& connect) const {
    if (!connect.will) return nullptr;
    const Will& will = *connect.will;
    auto testament = std::make_unique<Testament>();
    testament->message = make_message(will.topic, will.payload, will.properties, will.qos,
                                      will.retain && settings_.retain_available, 0);
    testament->message.expires = 0;
    testament->lives = will.properties.number(Property::message_expiry_interval);
    testament->delay = will.properties.number(Property::will_delay_interval).value_or(0);
    return testament;
}

/// What was not acknowledged before comes first (MQTT 5.0, 4.4), then what waited.
void Broker::resume(Session& session) {
    if (session.shares > 0) tell_groups(session, Membership::Change::comes_back);
    if (session.flow) {
        report_lost(session);
        for (const auto& entry : session.flow->sent)
            send(session, Pubrel{.packet_id = entry.packet_id});
        refill_window(session);
    }
    if (session.catch_up) catch_up(session);
}

}  // namespace pulsegate
