#include "server/session/life/connect_agreement.h"

#include <algorithm>

#include "protocol/utf8.h"
#include "server/message/topics.h"

namespace pulsegate {

namespace {

/// MQTT 5.0, 3.1.2.10: silence for one and a half keepalives means the client is gone.
Millis silence_of(std::uint32_t keepalive) { return Millis{keepalive} * 1500; }

/// The keepalive that the gateway sets for a client that states none; seconds.
std::uint32_t usual_keepalive(const BrokerSettings& settings) {
    return std::max<std::uint32_t>(static_cast<std::uint32_t>(settings.idle_timeout / 1500), 1);
}

/// The longest keepalive that a 5.0 client may state; seconds. Most libraries state 60 s by
/// default, and some of them (Paho for Python up to 1.6) keep pinging at that rate, whatever the
/// Server Keep Alive says.
std::uint32_t longest_keepalive(const BrokerSettings& settings) {
    constexpr std::uint32_t of_most_libraries = 60;
    const auto usual = usual_keepalive(settings);
    const auto longest =
        settings.max_keepalive ? settings.max_keepalive : std::max(of_most_libraries, usual);
    return settings.strict_idle_timeout ? std::min(longest, usual) : longest;
}

void agree_on_silence(const BrokerSettings& settings, const Connect& connect,
                      ConnectAgreement& agreement) {
    const std::uint32_t asked = connect.keepalive;
    if (connect.version != Version::v5_0) {
        // There is no Server Keep Alive in 3.1.1, so the client's own keepalive is honoured, unless
        // strict-idle-timeout is set.
        const bool stated = asked != 0;
        agreement.silence = stated ? silence_of(asked) : settings.idle_timeout;
        if (settings.strict_idle_timeout)
            agreement.silence = std::min(agreement.silence, settings.idle_timeout);
        return;
    }
    const auto usual = usual_keepalive(settings);
    const auto longest = longest_keepalive(settings);
    if (asked != 0 && asked <= longest) {
        agreement.silence = silence_of(asked);
        return;
    }
    agreement.server_keep_alive = asked == 0 ? std::min(usual, longest) : longest;
    agreement.silence = silence_of(agreement.server_keep_alive);
    // The default keepalive is rounded down to seconds, but its limit must not be.
    if (agreement.server_keep_alive == usual)
        agreement.silence = std::max(agreement.silence, settings.idle_timeout);
}

/// Seconds; a 3.1.1 client can't state a Session Expiry Interval, so it gets the longest.
std::uint32_t agreed_session_expiry(const BrokerSettings& settings, const Connect& connect) {
    const auto most = longest_session_expiry(settings);
    if (connect.version != Version::v5_0) return connect.clean_start ? 0 : most;
    return std::min(connect.properties.number(Property::session_expiry_interval).value_or(0), most);
}

std::optional<Refusal> objection_to_will(const BrokerSettings& settings, const Will& will,
                                         bool v5) {
    if (reserved_topic(will.topic))
        return Refusal{Reason::not_authorized, "the will's topic is reserved"};
    if (will.topic.size() > settings.max_topic_length)
        return Refusal{Reason::topic_name_invalid,
                       "the will's topic is longer than max-topic-length", Limit::max_topic_length};
    if (settings.inbox && names_no_inbox(will.topic))
        return Refusal{Reason::topic_name_invalid, no_such_inbox};
    if (v5 && will.qos > settings.max_qos)
        return Refusal{Reason::qos_not_supported, "the will's QoS is higher than max-qos"};
    if (v5 && will.retain && !settings.retain_available)
        return Refusal{Reason::retain_not_supported,
                       "the will has the retain flag, and retain-available is off"};
    const bool says_text = will.properties.number(Property::payload_format_indicator) == 1;
    if (says_text && !valid_utf8(will.payload))
        return Refusal{Reason::payload_format_invalid, "the will's payload is not UTF-8"};
    return std::nullopt;
}

}  // namespace

std::uint32_t longest_session_expiry(const BrokerSettings& settings) {
    return static_cast<std::uint32_t>(settings.max_session_expiry / 1000);
}

ConnectAgreement agree(const BrokerSettings& settings, const Connect& connect) {
    const auto& stated = connect.properties;
    const auto at_most = [&](Property id, std::uint32_t usual, std::uint16_t most) {
        return static_cast<std::uint16_t>(
            std::min<std::uint32_t>(stated.number(id).value_or(usual), most));
    };
    ConnectAgreement agreement{
        .terms = {.max_packet_size = stated.number(Property::maximum_packet_size).value_or(0),
                  .receive_maximum =
                      at_most(Property::receive_maximum, 65'535, settings.max_inflight),
                  .version = connect.version,
                  .wants_reasons = stated.number(Property::request_problem_information) == 1,
                  .takes_reasons = connect.version == Version::v5_0 &&
                                   stated.number(Property::request_problem_information) != 0},
        .session_expiry = agreed_session_expiry(settings, connect),
        .topic_alias_maximum =
            at_most(Property::topic_alias_maximum, 0, settings.topic_alias_maximum)};
    agree_on_silence(settings, connect, agreement);
    return agreement;
}

std::optional<Refusal> objection_to_connect(const BrokerSettings& settings,
                                            const Connect& connect) {
    const bool v5 = connect.version == Version::v5_0;
    if (connect.client_id.empty() && connect.version == Version::v3_1)
        return Refusal{Reason::client_identifier_not_valid, "MQTT 3.1 needs a client id"};
    if (connect.client_id.empty() && !v5 && !connect.clean_start)
        return Refusal{Reason::client_identifier_not_valid,
                       "an empty client id needs a clean session"};
    if (connect.client_id.size() > settings.max_client_id_length)
        return Refusal{Reason::client_identifier_not_valid,
                       "the client id is longer than max-client-id-length",
                       Limit::max_client_id_length};
    if (connect.properties.text(Property::authentication_method))
        return Refusal{Reason::bad_authentication_method, "enhanced authentication is not offered"};
    if (!connect.will) return std::nullopt;
    return objection_to_will(settings, *connect.will, v5);
}

Buffer accepting_connack(const BrokerSettings& settings, const Connect& connect,
                         const ConnectAgreement& agreement, const ConnackDetails& details) {
    const auto& stated = connect.properties;
    PropertyList properties;
    if (agreement.server_keep_alive != 0)
        properties.add(Property::server_keep_alive, agreement.server_keep_alive);
    properties.add(Property::receive_maximum, settings.receive_maximum);
    if (settings.max_qos != QoS::exactly_once)
        properties.add(Property::maximum_qos, static_cast<std::uint32_t>(settings.max_qos));
    if (!settings.retain_available) properties.add(Property::retain_available, std::uint32_t{0});
    properties.add(Property::maximum_packet_size,
                   static_cast<std::uint32_t>(settings.max_packet_size));
    properties.add(Property::topic_alias_maximum, settings.topic_alias_maximum);
    if (!settings.wildcard_subscriptions)
        properties.add(Property::wildcard_subscription_available, std::uint32_t{0});
    if (!settings.shared_subscriptions)
        properties.add(Property::shared_subscription_available, std::uint32_t{0});
    if (stated.number(Property::session_expiry_interval).value_or(0) != agreement.session_expiry)
        properties.add(Property::session_expiry_interval, agreement.session_expiry);
    if (!details.assigned_client_id.empty())
        properties.add(Property::assigned_client_identifier, details.assigned_client_id);
    const bool has_inbox = settings.inbox && details.user.size() <= longest_name;
    if (has_inbox && stated.number(Property::request_response_information) == 1)
        properties.add(Property::response_information, inbox_topic(details.user));
    Buffer connack;
    encode(Connack{.session_present = details.session_present, .properties = properties.view()},
           connect.version, connack);
    if (!agreement.terms.takes(connack.size())) connack.clear();
    return connack;
}

std::map<std::string, std::uint64_t> connack_promises(const BrokerSettings& settings) {
    return {{"max-packet-size", settings.max_packet_size},
            {"max-qos", static_cast<std::uint64_t>(settings.max_qos)},
            {"receive-maximum", settings.receive_maximum},
            {"retain-available", settings.retain_available},
            {"shared-subscriptions", settings.shared_subscriptions},
            {"topic-alias-maximum", settings.topic_alias_maximum},
            {"wildcard-subscriptions", settings.wildcard_subscriptions}};
}

}  // namespace pulsegate
