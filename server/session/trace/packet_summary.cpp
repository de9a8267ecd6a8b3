#include "server/session/trace/packet_summary.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/utf8.h"
#include "protocol/version_name.h"
#include "server/base/overloaded.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

constexpr std::size_t longest_told = 256;
constexpr std::size_t most_told_filters = 10;

std::string_view told_text(std::string_view text) { return first_characters(text, longest_told); }

void add_reason(json::object& told, Reason reason) {
    told["reason"] = name(reason);
    told["code"] = static_cast<int>(reason);
}

void summarize(json::object& told, const Connect& connect) {
    told["mqtt"] = version_name(connect.version);
    told["client"] = told_text(connect.client_id);
    if (connect.username) told["username"] = told_text(*connect.username);
    told["has_password"] = connect.password.has_value();
    told["clean_start"] = connect.clean_start;
    told["keepalive"] = connect.keepalive;
    if (const auto expiry = connect.properties.number(Property::session_expiry_interval))
        told["session_expiry"] = *expiry;
    if (connect.will) told["will_topic"] = told_text(connect.will->topic);
}

void summarize(json::object& told, const Connack& connack) {
    add_reason(told, connack.reason);
    told["session_present"] = connack.session_present;
}

void summarize(json::object& told, const Publish& publish) {
    told["qos"] = static_cast<int>(publish.qos);
    if (publish.qos != QoS::at_most_once) told["id"] = publish.packet_id;
    told["topic"] = told_text(publish.topic);
    if (const auto alias = publish.properties.number(Property::topic_alias))
        told["topic_alias"] = *alias;
    if (publish.dup) told["dup"] = true;
    if (publish.retain) told["retain"] = true;
}

template <PacketType Type>
void summarize(json::object& told, const Acknowledgement<Type>& acknowledgement) {
    told["id"] = acknowledgement.packet_id;
    add_reason(told, acknowledgement.reason);
}

/// The first items of a list, and their number.
template <class List, class Text>
json::array first_told(const List& list, Text text) {
    json::array told;
    told.reserve(std::min(list.size(), most_told_filters));
    for (const auto& each : list) {
        if (told.size() == most_told_filters) break;
        told.emplace_back(text(each));
    }
    return told;
}

void summarize(json::object& told, const Subscribe& subscribe) {
    told["id"] = subscribe.packet_id;
    told["count"] = subscribe.filters.size();
    told["filters"] = first_told(subscribe.filters, [](const SubscribeFilter& each) {
        return json::object{{"filter", told_text(each.filter)},
                            {"qos", static_cast<int>(each.options.qos)}};
    });
}

void summarize(json::object& told, const Unsubscribe& unsubscribe) {
    told["id"] = unsubscribe.packet_id;
    told["count"] = unsubscribe.filters.size();
    told["filters"] = first_told(unsubscribe.filters, [](std::string_view each) {
        return json::object{{"filter", told_text(each)}};
    });
}

void summarize(json::object& told, std::uint16_t packet_id, const std::vector<Reason>& reasons) {
    told["id"] = packet_id;
    told["codes"] = first_told(reasons, [](Reason each) { return static_cast<int>(each); });
}

void summarize(json::object& told, const Suback& suback) {
    summarize(told, suback.packet_id, suback.reasons);
}
void summarize(json::object& told, const Unsuback& unsuback) {
    summarize(told, unsuback.packet_id, unsuback.reasons);
}
void summarize(json::object& told, const Disconnect& disconnect) {
    add_reason(told, disconnect.reason);
}
void summarize(json::object& told, const Auth& auth) { add_reason(told, auth.reason); }
void summarize(json::object&, const Pingreq&) {}
void summarize(json::object&, const Pingresp&) {}

}  // namespace

json::object packet_summary(Bytes packet, Version version, Sender sender) {
    json::object told{{"event", sender == Sender::client ? "packet_in" : "packet_out"},
                      {"packet", name(static_cast<PacketType>(packet[0] >> 4))},
                      {"bytes", packet.size()}};
    const Decoded decoded = decode(packet, version, sender);
    if (const auto* error = std::get_if<DecodeError>(&decoded))
        told["why"] = error->cause;
    else
        std::visit([&](const auto& content) { summarize(told, content); },
                   std::get<Packet>(decoded));
    return told;
}

}  // namespace pulsegate
