#include "protocol/reason.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "protocol/reason_rules.h"

namespace pulsegate {

namespace {

struct ReasonRule {
    Reason reason;
    std::string_view name;
    PacketSet from_client;
    PacketSet from_server;
};

using namespace packets;

constexpr PacketSet both_acks = puback | pubrec;
constexpr PacketSet sub_acks = suback | unsuback;

constexpr ReasonRule reason_rules[] = {
    {Reason::success, "success", acknowledgements | disconnect,
     acknowledgements | connack | sub_acks | disconnect | auth},
    {Reason::granted_qos_1, "granted QoS 1", nowhere, suback},
    {Reason::granted_qos_2, "granted QoS 2", nowhere, suback},
    {Reason::disconnect_with_will, "disconnect with will message", disconnect, nowhere},
    {Reason::no_matching_subscribers, "no matching subscribers", nowhere, both_acks},
    {Reason::no_subscription_existed, "no subscription existed", nowhere, unsuback},
    {Reason::continue_authentication, "continue authentication", auth, auth},
    {Reason::reauthenticate, "re-authenticate", auth, nowhere},
    {Reason::unspecified_error, "unspecified error", both_acks | disconnect,
     both_acks | connack | sub_acks | disconnect},
    {Reason::malformed_packet, "malformed packet", disconnect, connack | disconnect},
    {Reason::protocol_error, "protocol error", disconnect, connack | disconnect},
    {Reason::implementation_specific_error, "implementation specific error", both_acks | disconnect,
     both_acks | connack | sub_acks | disconnect},
    {Reason::unsupported_protocol_version, "unsupported protocol version", nowhere, connack},
    {Reason::client_identifier_not_valid, "client identifier not valid", nowhere, connack},
    {Reason::bad_user_name_or_password, "bad user name or password", nowhere, connack},
    {Reason::not_authorized, "not authorized", both_acks,
     both_acks | connack | sub_acks | disconnect},
    {Reason::server_unavailable, "server unavailable", nowhere, connack},
    {Reason::server_busy, "server busy", nowhere, connack | disconnect},
    {Reason::banned, "banned", nowhere, connack},
    {Reason::server_shutting_down, "server shutting down", nowhere, disconnect},
    {Reason::bad_authentication_method, "bad authentication method", nowhere, connack | disconnect},
    {Reason::keep_alive_timeout, "keep alive timeout", nowhere, disconnect},
    {Reason::session_taken_over, "session taken over", nowhere, disconnect},
    {Reason::topic_filter_invalid, "topic filter invalid", nowhere, sub_acks | disconnect},
    {Reason::topic_name_invalid, "topic name invalid", both_acks | disconnect,
     both_acks | connack | disconnect},
    {Reason::packet_identifier_in_use, "packet identifier in use", both_acks, both_acks | sub_acks},
    {Reason::packet_identifier_not_found, "packet identifier not found", pubrel | pubcomp,
     pubrel | pubcomp},
    {Reason::receive_maximum_exceeded, "receive maximum exceeded", disconnect, disconnect},
    {Reason::topic_alias_invalid, "topic alias invalid", disconnect, disconnect},
    {Reason::packet_too_large, "packet too large", disconnect, connack | disconnect},
    {Reason::message_rate_too_high, "message rate too high", disconnect, disconnect},
    {Reason::quota_exceeded, "quota exceeded", both_acks | disconnect,
     both_acks | connack | suback | disconnect},
    {Reason::administrative_action, "administrative action", disconnect, disconnect},
    {Reason::payload_format_invalid, "payload format invalid", both_acks | disconnect,
     both_acks | connack | disconnect},
    {Reason::retain_not_supported, "retain not supported", nowhere, connack | disconnect},
    {Reason::qos_not_supported, "QoS not supported", nowhere, connack | disconnect},
    {Reason::use_another_server, "use another server", nowhere, connack | disconnect},
    {Reason::server_moved, "server moved", nowhere, connack | disconnect},
    {Reason::shared_subscriptions_not_supported, "shared subscriptions not supported", nowhere,
     suback | disconnect},
    {Reason::connection_rate_exceeded, "connection rate exceeded", nowhere, connack | disconnect},
    {Reason::maximum_connect_time, "maximum connect time", nowhere, disconnect},
    {Reason::subscription_identifiers_not_supported, "subscription identifiers not supported",
     nowhere, suback | disconnect},
    {Reason::wildcard_subscriptions_not_supported, "wildcard subscriptions not supported", nowhere,
     suback | disconnect},
};
static_assert(std::size(reason_rules) == 43, "MQTT 5.0 has 43 reason codes");

constexpr auto by_code = [] {
    std::array<ReasonRule, 256> table{};
    for (const ReasonRule& rule : reason_rules) table[static_cast<std::size_t>(rule.reason)] = rule;
    return table;
}();

constexpr std::uint8_t return_code_server_unavailable = 3;

struct ReturnCode {
    Reason reason;
    std::uint8_t code;
};
// MQTT 3.1.1, table 3.1.
constexpr ReturnCode return_codes[] = {
    {Reason::success, 0},
    {Reason::unsupported_protocol_version, 1},
    {Reason::client_identifier_not_valid, 2},
    {Reason::server_unavailable, return_code_server_unavailable},
    {Reason::bad_user_name_or_password, 4},
    {Reason::not_authorized, 5},
    {Reason::bad_authentication_method, 5},
    {Reason::banned, 5},
};

}  // namespace

std::string_view name(Reason reason) {
    const std::string_view name = by_code[static_cast<std::size_t>(reason)].name;
    return name.empty() ? "unknown reason" : name;
}

PacketSet packets_with(std::uint8_t reason, Sender sender) {
    const ReasonRule& rule = by_code[reason];
    return sender == Sender::client ? rule.from_client : rule.from_server;
}

std::uint8_t connect_return_code(Reason reason) {
    const auto* found = std::ranges::find(return_codes, reason, &ReturnCode::reason);
    // The rest is nothing that a 3.1.1 client could be told or could mend: it may try again later.
    return found == std::end(return_codes) ? return_code_server_unavailable : found->code;
}

std::optional<Reason> connect_reason(std::uint8_t return_code) {
    const auto* found = std::ranges::find(return_codes, return_code, &ReturnCode::code);
    if (found == std::end(return_codes)) return std::nullopt;
    return found->reason;
}

}  // namespace pulsegate
