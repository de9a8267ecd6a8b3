#include "protocol/decode.h"

#include <array>
#include <type_traits>
#include <utility>

#include "protocol/packet_set.h"
#include "protocol/properties.h"
#include "protocol/reader.h"
#include "protocol/reason_rules.h"
#include "protocol/topic.h"

namespace pulsegate {

namespace {

struct Header;

/// What the fixed header says of a packet type, how its body is read, and what to say when it is
/// not as it should be.
struct Kind {
    std::uint8_t flags;  ///< as they must be; PUBLISH has its own
    bool from_client;
    bool from_server;
    Decoded (*read)(Reader&, const Header&);
    ReadCauses causes;
    const char* wrong_flags;
    const char* wrong_sender;
    const char* no_packet_id;
    const char* wrong_reason;
    const char* bad_filter;
};

struct Header {
    PacketType type;
    std::uint8_t flags;
    Version version;
    Sender sender;
    const Kind& kind;

    bool v5() const { return version == Version::v5_0; }
};

template <class Body>
Decoded finish(Reader& in, Body&& packet) {
    in.finish();
    if (in.failed()) return in.error();
    return Decoded(std::in_place_type<Packet>, std::forward<Body>(packet));
}

// What several packets have in common.

std::uint16_t read_packet_id(Reader& in, const Header& header) {
    const std::uint16_t id = in.u16();
    if (id == 0) in.protocol_error(header.kind.no_packet_id);
    return id;
}

Reason read_reason(Reader& in, const Header& header) {
    const std::uint8_t code = in.u8();
    if (!contains(packets_with(code, header.sender), header.type))
        in.protocol_error(header.kind.wrong_reason);
    return Reason{code};
}

Properties read_properties(Reader& in, const Header& header) {
    if (!header.v5()) return {};
    return read_properties(in, header.type, header.sender);
}

/// The end of a 5.0 packet that may leave out its properties, and then its reason as well.
template <class Body>
void read_reason_and_properties(Reader& in, const Header& header, Body& packet) {
    if (!header.v5()) return;
    if (in.more()) packet.reason = read_reason(in, header);
    if (in.more()) packet.properties = read_properties(in, header);
}

// CONNECT (section 3.1)

constexpr unsigned connect_reserved = 0x01;
constexpr unsigned connect_clean_start = 0x02;
constexpr unsigned connect_will = 0x04;
constexpr unsigned connect_will_qos = 0x18;
constexpr unsigned connect_will_retain = 0x20;
constexpr unsigned connect_password = 0x40;
constexpr unsigned connect_username = 0x80;

Version read_protocol(Reader& in) {
    const std::string_view name = in.text();
    const std::uint8_t level = in.u8();
    if (in.failed()) return {};
    const bool v3_1 = name == "MQIsdp";
    if (!v3_1 && name != "MQTT") in.malformed("CONNECT: protocol name is not MQTT");
    if (v3_1 ? level != 3 : level != 4 && level != 5)
        in.fail({Reason::unsupported_protocol_version, "CONNECT: unknown protocol level"});
    return Version{level};
}

/// What 3.1 does not use, it does not forbid: whatever is there is not looked at (3.1,
/// section 3.1).
unsigned read_connect_flags(Reader& in, Version version) {
    constexpr unsigned of_will = connect_will_qos | connect_will_retain;
    unsigned flags = in.u8();
    if (version == Version::v3_1 && !(flags & connect_will)) flags &= ~of_will;
    if ((flags & connect_reserved) && version != Version::v3_1)
        in.malformed("CONNECT: reserved flag is set");
    if (!(flags & connect_will) && (flags & of_will))
        in.malformed("CONNECT: will QoS or will retain without a will");
    if ((flags & connect_will_qos) == connect_will_qos) in.malformed("CONNECT: will QoS is 3");
    // 3.1.1, section 3.1.2.9; 5.0 has given this rule up.
    if (version != Version::v5_0 && (flags & connect_password) && !(flags & connect_username))
        in.malformed("CONNECT: password without a user name");
    return flags;
}

std::optional<Will> read_will(Reader& in, const Header& header, unsigned flags) {
    if (!(flags & connect_will)) return std::nullopt;
    Will will;
    will.qos = QoS{static_cast<std::uint8_t>((flags & connect_will_qos) >> 3)};
    will.retain = (flags & connect_will_retain) != 0;
    if (header.v5()) will.properties = read_properties(in, packets::will_type, header.sender);
    will.topic = in.name();
    will.payload = in.binary();
    if (will.topic.empty() || has_wildcard(will.topic))
        in.fail({Reason::topic_name_invalid, "CONNECT: will topic is empty or has a wildcard"});
    return will;
}

Decoded read_connect(Reader& in, const Header& framed) {
    Connect connect;
    connect.version = read_protocol(in);
    if (framed.flags != 0 && connect.version != Version::v3_1)
        in.malformed(framed.kind.wrong_flags);
    Header header = framed;
    header.version = connect.version;
    const unsigned flags = read_connect_flags(in, connect.version);
    connect.clean_start = (flags & connect_clean_start) != 0;
    connect.keepalive = in.u16();
    connect.properties = read_properties(in, header);
    connect.client_id = in.text();
    if (has_control_character(connect.client_id))
        in.fail(
            {Reason::client_identifier_not_valid, "CONNECT: client id has a control character"});
    connect.will = read_will(in, header, flags);
    // In 3.1 a packet may end before what its flags promise (3.1, section 3.1, User name and
    // password flags).
    const bool may_end = connect.version == Version::v3_1;
    if ((flags & connect_username) && (in.more() || !may_end)) connect.username = in.name();
    if ((flags & connect_password) && (in.more() || !may_end)) connect.password = in.binary();
    return finish(in, connect);
}

// CONNACK (section 3.2)

Reason read_return_code(Reader& in) {
    const auto reason = connect_reason(in.u8());
    if (!reason) in.protocol_error("CONNACK: reserved return code");
    return reason.value_or(Reason::unspecified_error);
}

Decoded read_connack(Reader& in, const Header& header) {
    Connack connack;
    const std::uint8_t flags = in.u8();
    if (flags > 1) in.malformed("CONNACK: reserved flags are set");
    connack.session_present = flags == 1;
    connack.reason = header.v5() ? read_reason(in, header) : read_return_code(in);
    if (connack.session_present && connack.reason != Reason::success)
        in.protocol_error("CONNACK: session present in a refusal");
    connack.properties = read_properties(in, header);
    return finish(in, connack);
}

// PUBLISH (section 3.3)

// The packets of the hot path own nothing, so that decoding them allocates nothing.
static_assert(std::is_trivially_destructible_v<Publish> &&
              std::is_trivially_destructible_v<Puback>);

constexpr unsigned publish_retain = 0x01;
constexpr unsigned publish_qos = 0x06;
constexpr unsigned publish_dup = 0x08;

void check_topic(Reader& in, const Publish& publish) {
    if (has_wildcard(publish.topic))
        return in.fail({Reason::topic_name_invalid, "PUBLISH: topic name has a wildcard"});
    if (publish.topic.empty() && !publish.properties.number(Property::topic_alias))
        in.protocol_error("PUBLISH: topic name is empty and there is no topic alias");
}

Decoded read_publish(Reader& in, const Header& header) {
    Publish publish;
    publish.dup = (header.flags & publish_dup) != 0;
    publish.qos = QoS{static_cast<std::uint8_t>((header.flags & publish_qos) >> 1)};
    publish.retain = (header.flags & publish_retain) != 0;
    publish.topic = in.name();
    if (publish.qos != QoS::at_most_once) publish.packet_id = read_packet_id(in, header);
    publish.properties = read_properties(in, header);
    check_topic(in, publish);
    publish.payload = as_text(in.rest());
    return finish(in, publish);
}

// PUBACK, PUBREC, PUBREL, PUBCOMP (sections 3.4 to 3.7)

template <class Acknowledgement>
Decoded read_acknowledgement(Reader& in, const Header& header) {
    Acknowledgement acknowledgement;
    acknowledgement.packet_id = read_packet_id(in, header);
    read_reason_and_properties(in, header, acknowledgement);
    return finish(in, acknowledgement);
}

// SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK (sections 3.8 to 3.11)

/// A text that is not a topic filter (section 4.7) is a violation of the protocol, not a filter to
/// be refused. 3.1.1 knows no shared subscriptions: to it `$share/` is the beginning of any filter.
std::string_view read_filter(Reader& in, const Header& header) {
    const std::string_view filter = in.name();
    const bool valid =
        header.v5() ? valid_topic_filter(filter) : !filter.empty() && wildcards_in_place(filter);
    if (!valid) in.malformed(header.kind.bad_filter);
    return filter;
}

SubscribeOptions read_subscribe_options(Reader& in, const Header& header) {
    const unsigned bits = in.u8();
    if (bits & (header.v5() ? 0xC0 : 0xFC)) in.malformed("SUBSCRIBE: reserved option bits are set");
    SubscribeOptions options;
    options.qos = QoS{static_cast<std::uint8_t>(bits & 0x03)};
    options.no_local = (bits & 0x04) != 0;
    options.retain_as_published = (bits & 0x08) != 0;
    options.retain_handling = static_cast<std::uint8_t>(bits >> 4 & 0x03);
    if ((bits & 0x03) == 3)  // 3.1.1 calls malformed (3.8.3-4) what is a protocol error in 5.0
        in.fail({header.v5() ? Reason::protocol_error : Reason::malformed_packet,
                 "SUBSCRIBE: QoS is 3"});
    if (options.retain_handling == 3) in.protocol_error("SUBSCRIBE: retain handling is 3");
    return options;
}

Decoded read_subscribe(Reader& in, const Header& header) {
    Subscribe subscribe;
    subscribe.packet_id = read_packet_id(in, header);
    subscribe.properties = read_properties(in, header);
    if (!in.more()) in.protocol_error("SUBSCRIBE: no topic filter");
    while (in.more()) {
        const std::string_view filter = read_filter(in, header);
        const SubscribeOptions options = read_subscribe_options(in, header);
        if (options.no_local && shared_filter(filter))
            in.protocol_error("SUBSCRIBE: no local on a shared subscription");
        subscribe.filters.push_back({filter, options});
    }
    return finish(in, std::move(subscribe));
}

// 3.1.1 knows three grants and one refusal (section 3.9.3).
Reason read_subscribe_return_code(Reader& in) {
    const std::uint8_t code = in.u8();
    if (code > 2 && code != 0x80) in.protocol_error("SUBACK: reserved return code");
    return Reason{code};
}

Decoded read_suback(Reader& in, const Header& header) {
    Suback suback;
    suback.packet_id = read_packet_id(in, header);
    suback.properties = read_properties(in, header);
    if (!in.more()) in.protocol_error("SUBACK: no reason code");
    suback.reasons.reserve(in.left());
    while (in.more())
        suback.reasons.push_back(header.v5() ? read_reason(in, header)
                                             : read_subscribe_return_code(in));
    return finish(in, std::move(suback));
}

Decoded read_unsubscribe(Reader& in, const Header& header) {
    Unsubscribe unsubscribe;
    unsubscribe.packet_id = read_packet_id(in, header);
    unsubscribe.properties = read_properties(in, header);
    if (!in.more()) in.protocol_error("UNSUBSCRIBE: no topic filter");
    while (in.more()) unsubscribe.filters.push_back(read_filter(in, header));
    return finish(in, std::move(unsubscribe));
}

Decoded read_unsuback(Reader& in, const Header& header) {
    Unsuback unsuback;
    unsuback.packet_id = read_packet_id(in, header);
    if (!header.v5()) return finish(in, std::move(unsuback));
    unsuback.properties = read_properties(in, header);
    if (!in.more()) in.protocol_error("UNSUBACK: no reason code");
    unsuback.reasons.reserve(in.left());
    while (in.more()) unsuback.reasons.push_back(read_reason(in, header));
    return finish(in, std::move(unsuback));
}

// PINGREQ, PINGRESP, DISCONNECT, AUTH (sections 3.12 to 3.15)

template <class Ping>
Decoded read_ping(Reader& in, const Header&) {
    return finish(in, Ping{});
}

Decoded read_disconnect(Reader& in, const Header& header) {
    if (!header.v5() && header.sender == Sender::server)
        in.protocol_error("DISCONNECT: only a client sends it in MQTT 3.1.1");
    Disconnect disconnect;
    read_reason_and_properties(in, header, disconnect);
    return finish(in, disconnect);
}

Decoded read_auth(Reader& in, const Header& header) {
    if (!header.v5()) in.malformed("AUTH: not a packet of MQTT 3.1.1");
    Auth auth;
    if (in.more()) {
        auth.reason = read_reason(in, header);
        auth.properties = read_properties(in, header);
    } else if (header.sender == Sender::client) {
        in.protocol_error("AUTH: only a server sends success");
    }
    // Section 3.15.2: only a success without any properties may leave the method out.
    const bool bare = auth.reason == Reason::success && auth.properties.empty();
    if (!bare && !auth.properties.text(Property::authentication_method))
        in.protocol_error("AUTH: no authentication method");
    return finish(in, auth);
}

// The fixed header (section 2.1)

// A macro only because the causes are to be literals: the packet's name stands in each of them.
#define KIND(name, flags, from_client, from_server, sender, read)                 \
    Kind {                                                                        \
        flags, from_client, from_server, read,                                    \
            ReadCauses{name ": ends too early", name ": has bytes after its end", \
                       name ": a text is not valid UTF-8",                        \
                       name ": a variable byte integer is malformed",             \
                       name ": a name has a control character"},                  \
            name ": reserved flags of the fixed header are set",                  \
            name ": only a " sender " sends it", name ": packet identifier is 0", \
            name ": reason code is not allowed in this packet",                   \
            name ": a topic filter is malformed"                                  \
    }
#define BY_CLIENT(name, flags, read) KIND(name, flags, true, false, "client", read)
#define BY_SERVER(name, flags, read) KIND(name, flags, false, true, "server", read)
#define BY_BOTH(name, flags, read) KIND(name, flags, true, true, "peer", read)

constexpr std::array<Kind, 16> kinds{
    Kind{},  // reserved
    BY_CLIENT("CONNECT", 0, read_connect),
    BY_SERVER("CONNACK", 0, read_connack),
    BY_BOTH("PUBLISH", 0, read_publish),
    BY_BOTH("PUBACK", 0, read_acknowledgement<Puback>),
    BY_BOTH("PUBREC", 0, read_acknowledgement<Pubrec>),
    BY_BOTH("PUBREL", 2, read_acknowledgement<Pubrel>),
    BY_BOTH("PUBCOMP", 0, read_acknowledgement<Pubcomp>),
    BY_CLIENT("SUBSCRIBE", 2, read_subscribe),
    BY_SERVER("SUBACK", 0, read_suback),
    BY_CLIENT("UNSUBSCRIBE", 2, read_unsubscribe),
    BY_SERVER("UNSUBACK", 0, read_unsuback),
    BY_CLIENT("PINGREQ", 0, read_ping<Pingreq>),
    BY_SERVER("PINGRESP", 0, read_ping<Pingresp>),
    BY_BOTH("DISCONNECT", 0, read_disconnect),
    BY_BOTH("AUTH", 0, read_auth),
};
static_assert(kinds[static_cast<std::size_t>(PacketType::auth)].read == read_auth);

#undef BY_BOTH
#undef BY_SERVER
#undef BY_CLIENT
#undef KIND

constexpr unsigned at_least_once_flags = 0x02;  ///< of packets that are acknowledged

DecodeError malformed(const char* cause) { return {Reason::malformed_packet, cause}; }

/// What is wrong with a packet's first byte; a cause of null if nothing is.
DecodeError check_first_byte(std::uint8_t first, Version version) {
    const PacketType type{static_cast<std::uint8_t>(first >> 4)};
    const unsigned flags = first & 0x0F;
    if (type == PacketType::publish) {
        if ((flags & publish_qos) == publish_qos) return malformed("PUBLISH: QoS is 3");
        if ((flags & publish_dup) && !(flags & publish_qos))
            return malformed("PUBLISH: DUP is set at QoS 0");
        return {};
    }
    if (type == PacketType::connect) return {};  // it says further on whether they must be 0
    const Kind& kind = kinds[first >> 4];
    if (kind.read == nullptr) return malformed("packet type 0 is reserved");
    // In 3.1 whatever has QoS 1 is marked when it is sent again: SUBSCRIBE, UNSUBSCRIBE and PUBREL,
    // too (3.1, section 2.1).
    const bool sent_again = version == Version::v3_1 && kind.flags == at_least_once_flags &&
                            flags == (at_least_once_flags | publish_dup);
    if (flags != kind.flags && !sent_again) return malformed(kind.wrong_flags);
    return {};
}

struct FixedHeader {
    std::size_t size = 0;  ///< 0: it has not all arrived
    std::size_t remaining = 0;
    DecodeError error{};
};

FixedHeader read_fixed_header(Bytes in, Version version) {
    FixedHeader header;
    if (in.empty()) return header;
    header.error = check_first_byte(in[0], version);
    if (header.error.cause) return header;

    for (std::size_t i = 1; i < in.size(); ++i) {
        header.remaining |= static_cast<std::size_t>(in[i] & 0x7F) << (7 * (i - 1));
        const bool continued = (in[i] & 0x80) != 0;
        if (continued && i == 4) {
            header.error = malformed("remaining length has more than four bytes");
            return header;
        }
        if (continued) continue;
        if (in[i] == 0 && i > 1)
            header.error = malformed("remaining length has more bytes than it needs");
        header.size = i + 1;
        return header;
    }
    return header;
}

Frame bad(DecodeError error) { return {Frame::Status::bad, 0, error}; }

}  // namespace

Frame next_frame(Bytes in, std::size_t max_packet_size, Version version) {
    const FixedHeader header = read_fixed_header(in, version);
    if (header.error.cause) return bad(header.error);
    if (header.size == 0) return {Frame::Status::incomplete};
    const std::size_t size = header.size + header.remaining;
    if (size > max_packet_size)
        return bad({Reason::packet_too_large, "packet is larger than allowed"});
    return {size <= in.size() ? Frame::Status::complete : Frame::Status::incomplete, size};
}

Decoded decode(Bytes frame, Version version, Sender sender) {
    const FixedHeader fixed = read_fixed_header(frame, version);
    if (fixed.error.cause) return fixed.error;
    if (fixed.size == 0 || fixed.size + fixed.remaining != frame.size())
        return malformed("frame is not exactly one packet");

    const Kind& kind = kinds[frame[0] >> 4];
    const Header header{PacketType{static_cast<std::uint8_t>(frame[0] >> 4)},
                        static_cast<std::uint8_t>(frame[0] & 0x0F), version, sender, kind};
    if (!(sender == Sender::client ? kind.from_client : kind.from_server))
        return DecodeError{Reason::protocol_error, kind.wrong_sender};
    Reader in(frame.subspan(fixed.size), kind.causes);
    return kind.read(in, header);
}

std::optional<ConnectClaims> claims_of_connect(Bytes frame) {
    const FixedHeader fixed = read_fixed_header(frame, Version::v5_0);
    if (fixed.error.cause || fixed.size == 0) return std::nullopt;
    constexpr unsigned connect = static_cast<unsigned>(PacketType::connect) << 4;
    if (frame[0] != connect) return std::nullopt;
    Reader in(frame.subspan(fixed.size));
    const std::string_view protocol = in.text();
    const std::uint8_t level = in.u8();
    if (in.failed() || (protocol != "MQTT" && protocol != "MQIsdp")) return std::nullopt;
    if (level < static_cast<std::uint8_t>(Version::v5_0)) return ConnectClaims{Version::v3_1_1};
    in.take(3);  // flags and keepalive
    const Properties properties = read_properties(in, PacketType::connect, Sender::client);
    return ConnectClaims{Version::v5_0,
                         properties.number(Property::maximum_packet_size).value_or(0)};
}

}  // namespace pulsegate
