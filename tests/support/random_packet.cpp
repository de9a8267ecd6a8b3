#include "tests/support/random_packet.h"

#include "protocol/topic.h"

namespace pulsegate {

using P = Property;

Packet RandomPackets::next(Version version, Sender sender) {
    texts_.clear();
    const Case c{version, sender};
    const bool client = sender == Sender::client;
    for (;;) {
        switch (PacketType{static_cast<std::uint8_t>(1 + below(15))}) {
            case PacketType::connect:
                if (client) return connect(c);
                break;
            case PacketType::connack:
                if (!client) return connack(c);
                break;
            case PacketType::publish: return publish(c);
            case PacketType::puback: return acknowledgement<Puback>(c);
            case PacketType::pubrec: return acknowledgement<Pubrec>(c);
            case PacketType::pubrel: return acknowledgement<Pubrel>(c);
            case PacketType::pubcomp: return acknowledgement<Pubcomp>(c);
            case PacketType::subscribe:
                if (client) return subscribe(c);
                break;
            case PacketType::suback:
                if (!client) return suback(c);
                break;
            case PacketType::unsubscribe:
                if (client) return unsubscribe(c);
                break;
            case PacketType::unsuback:
                if (!client) return unsuback(c);
                break;
            case PacketType::pingreq:
                if (client) return Pingreq{};
                break;
            case PacketType::pingresp:
                if (!client) return Pingresp{};
                break;
            case PacketType::disconnect:
                if (client || c.v5()) return disconnect(c);
                break;
            case PacketType::auth:
                if (c.v5()) return auth(c);
                break;
        }
    }
}

Connect RandomPackets::connect(Case c) {
    Connect packet;
    packet.version = c.version;
    packet.clean_start = maybe();
    packet.keepalive = static_cast<std::uint16_t>(number());
    packet.client_id = name();
    if (maybe()) packet.username = name();
    if ((packet.username || c.v5()) && maybe()) packet.password = bytes();
    if (maybe()) {
        Will& will = packet.will.emplace();
        will.topic = topic();
        will.payload = bytes();
        will.qos = qos();
        will.retain = maybe();
        if (c.v5()) {
            PropertyList list;
            add_message_properties(list);
            if (maybe()) list.add(P::will_delay_interval, number());
            add_common(list, false);
            will.properties = keep(std::move(list));
        }
    }
    if (!c.v5()) return packet;
    PropertyList list;
    if (maybe()) list.add(P::session_expiry_interval, number());
    if (maybe()) list.add(P::receive_maximum, packet_id());
    if (maybe()) list.add(P::maximum_packet_size, 1 + number() / 2);
    if (maybe()) list.add(P::topic_alias_maximum, below(65'536));
    if (maybe()) list.add(P::request_problem_information, below(2));
    if (maybe()) list.add(P::request_response_information, below(2));
    if (maybe()) {
        list.add(P::authentication_method, text());
        if (maybe()) list.add(P::authentication_data, bytes());
    }
    add_common(list, false);
    packet.properties = keep(std::move(list));
    return packet;
}

Connack RandomPackets::connack(Case c) {
    Connack packet;
    packet.session_present = maybe();
    if (!packet.session_present)
        packet.reason = one_of({Reason::success, Reason::unsupported_protocol_version,
                                Reason::client_identifier_not_valid, Reason::server_unavailable,
                                Reason::bad_user_name_or_password, Reason::not_authorized});
    if (!c.v5()) return packet;
    PropertyList list;
    if (maybe()) list.add(P::session_expiry_interval, number());
    if (maybe()) list.add(P::assigned_client_identifier, text());
    if (maybe()) list.add(P::server_keep_alive, below(65'536));
    if (maybe()) list.add(P::maximum_qos, below(2));
    if (maybe()) list.add(P::retain_available, below(2));
    if (maybe()) list.add(P::shared_subscription_available, below(2));
    if (maybe()) list.add(P::server_reference, text());
    add_common(list, true);
    packet.properties = keep(std::move(list));
    return packet;
}

Publish RandomPackets::publish(Case c) {
    Publish packet;
    packet.qos = qos();
    packet.retain = maybe();
    if (packet.qos != QoS::at_most_once) {
        packet.dup = maybe();
        packet.packet_id = packet_id();
    }
    packet.topic = topic();
    packet.payload = bytes();
    if (!c.v5()) return packet;
    PropertyList list;
    add_message_properties(list);
    if (maybe()) {
        list.add(P::topic_alias, packet_id());
        if (maybe()) packet.topic = {};
    }
    if (c.sender == Sender::server)
        while (maybe()) list.add(P::subscription_identifier, 1 + below(268'435'455));
    add_common(list, false);
    packet.properties = keep(std::move(list));
    return packet;
}

template <class Acknowledgement>
Acknowledgement RandomPackets::acknowledgement(Case c) {
    constexpr bool ends =
        Acknowledgement::type == PacketType::pubrel || Acknowledgement::type == PacketType::pubcomp;
    Acknowledgement packet;
    packet.packet_id = packet_id();
    if (!c.v5()) return packet;
    packet.reason =
        ends ? one_of({Reason::success, Reason::packet_identifier_not_found})
             : one_of({Reason::success, Reason::quota_exceeded, Reason::topic_name_invalid});
    PropertyList list;
    add_common(list, true);
    packet.properties = keep(std::move(list));
    return packet;
}

Subscribe RandomPackets::subscribe(Case c) {
    Subscribe packet;
    packet.packet_id = packet_id();
    do {
        SubscribeFilter each{filter(), {.qos = qos()}};
        if (c.v5()) {
            each.options.no_local = maybe() && !shared_filter(each.filter);
            each.options.retain_as_published = maybe();
            each.options.retain_handling = static_cast<std::uint8_t>(below(3));
        }
        packet.filters.push_back(each);
    } while (maybe());
    if (!c.v5()) return packet;
    PropertyList list;
    if (maybe()) list.add(P::subscription_identifier, 1 + below(268'435'455));
    add_common(list, false);
    packet.properties = keep(std::move(list));
    return packet;
}

Suback RandomPackets::suback(Case c) {
    Suback packet;
    packet.packet_id = packet_id();
    do
        packet.reasons.push_back(one_of({Reason::success, Reason::granted_qos_1,
                                         Reason::granted_qos_2, Reason::unspecified_error}));
    while (maybe());
    if (!c.v5()) return packet;
    packet.reasons.push_back(Reason::topic_filter_invalid);
    PropertyList list;
    add_common(list, true);
    packet.properties = keep(std::move(list));
    return packet;
}

Unsubscribe RandomPackets::unsubscribe(Case c) {
    Unsubscribe packet;
    packet.packet_id = packet_id();
    do packet.filters.push_back(filter());
    while (maybe());
    if (!c.v5()) return packet;
    PropertyList list;
    add_common(list, false);
    packet.properties = keep(std::move(list));
    return packet;
}

Unsuback RandomPackets::unsuback(Case c) {
    Unsuback packet;
    packet.packet_id = packet_id();
    if (!c.v5()) return packet;
    do
        packet.reasons.push_back(
            one_of({Reason::success, Reason::no_subscription_existed, Reason::not_authorized}));
    while (maybe());
    PropertyList list;
    add_common(list, true);
    packet.properties = keep(std::move(list));
    return packet;
}

Disconnect RandomPackets::disconnect(Case c) {
    Disconnect packet;
    if (!c.v5()) return packet;
    PropertyList list;
    if (c.sender == Sender::client) {
        packet.reason = one_of({Reason::success, Reason::disconnect_with_will});
        if (maybe()) list.add(P::session_expiry_interval, number());
    } else {
        packet.reason = one_of({Reason::success, Reason::session_taken_over, Reason::server_moved});
        if (maybe()) list.add(P::server_reference, text());
    }
    add_common(list, true);
    packet.properties = keep(std::move(list));
    return packet;
}

Auth RandomPackets::auth(Case c) {
    Auth packet;
    packet.reason = c.sender == Sender::client
                        ? one_of({Reason::continue_authentication, Reason::reauthenticate})
                        : one_of({Reason::continue_authentication, Reason::success});
    if (packet.reason == Reason::success && maybe()) return packet;
    PropertyList list;
    list.add(P::authentication_method, text());
    if (maybe()) list.add(P::authentication_data, bytes());
    add_common(list, true);
    packet.properties = keep(std::move(list));
    return packet;
}

void RandomPackets::add_message_properties(PropertyList& list) {
    if (maybe()) list.add(P::payload_format_indicator, below(2));
    if (maybe()) list.add(P::message_expiry_interval, number());
    if (maybe()) list.add(P::content_type, text());
    if (maybe()) list.add(P::response_topic, topic());
    if (maybe()) list.add(P::correlation_data, bytes());
}

void RandomPackets::add_common(PropertyList& list, bool reason_string) {
    if (reason_string && maybe()) list.add(P::reason_string, text());
    while (below(3) == 0) {
        const std::string_view key = text();
        list.add_user(key, text());
    }
}

// Small numbers are as likely as large ones.
std::uint32_t RandomPackets::number() { return static_cast<std::uint32_t>(random_()) >> below(32); }

std::string_view RandomPackets::keep(std::string text) {
    return texts_.emplace_back(std::move(text));
}

Properties RandomPackets::keep(PropertyList list) {
    return Properties(as_bytes(keep(std::move(list).take())));
}

std::string_view RandomPackets::text() {
    static constexpr std::string_view characters[] = {"a",    "Z", " ", "\x7F",       "\u00E9",
                                                      "/",    "+", "#", "\uFEFF",     "\u3042",
                                                      "\x01", "$", "'", "\U0001F600", "\U0010FFFF"};
    std::string text;
    for (auto left = below(4) == 0 ? below(200) : below(12); left > 0; --left)
        text += characters[below(std::size(characters))];
    return keep(std::move(text));
}

std::string_view RandomPackets::topic() {
    std::string topic = "t";
    for (const char c : name())
        if (c != '+' && c != '#') topic += c;
    return keep(std::move(topic));
}

std::string_view RandomPackets::name() {
    std::string name;
    for (const char c : text())
        if (c != '\x01' && c != '\x7F') name += c;
    return keep(std::move(name));
}

std::string_view RandomPackets::filter() {
    static constexpr std::string_view filters[] = {
        "#", "+", "a/+/b", "a/#", "$share/g/a/#", "$SYS/#", "/",
    };
    return maybe() ? filters[below(std::size(filters))] : topic();
}

std::string_view RandomPackets::bytes() {
    std::string bytes;
    for (auto left = below(8) == 0 ? below(20'000) : below(20); left > 0; --left)
        bytes.push_back(static_cast<char>(random_()));
    return keep(std::move(bytes));
}

Reason RandomPackets::one_of(std::initializer_list<Reason> reasons) {
    return reasons.begin()[below(static_cast<std::uint32_t>(reasons.size()))];
}

}  // namespace pulsegate
