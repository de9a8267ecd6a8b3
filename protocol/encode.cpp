#include "protocol/encode.h"

#include <cassert>
#include <variant>

#include "protocol/writer.h"

namespace pulsegate {

namespace {

constexpr unsigned first_byte(PacketType type, unsigned flags = 0) {
    return static_cast<unsigned>(type) << 4 | flags;
}

/// A packet of a size that is only known when it is written: the length goes in at the end.
class Body {
public:
    Body(Buffer& out, PacketType type, unsigned flags = 0) : out_(out), start_(out.size()) {
        put_u8(out_, first_byte(type, flags));
        put_u8(out_, 0);
    }

    void finish() {
        const std::size_t size = out_.size() - start_ - 2;
        if (size < 128) {
            out_[start_ + 1] = static_cast<char>(size);
            return;
        }
        Buffer length;
        put_varint(length, size);
        out_.replace(start_ + 1, 1, length);
    }

private:
    Buffer& out_;
    std::size_t start_;
};

void put_properties(Buffer& out, const Properties& properties) {
    put_varint(out, properties.raw().size());
    out.append(as_text(properties.raw()));
}

std::size_t properties_size(const Properties& properties) {
    return varint_size(properties.raw().size()) + properties.raw().size();
}

/// The end of a packet that may leave out its properties, and then a success as well.
void put_reason_and_properties(Buffer& out, Reason reason, const Properties& properties) {
    if (reason == Reason::success && properties.empty()) return;
    put_u8(out, static_cast<unsigned>(reason));
    if (!properties.empty()) put_properties(out, properties);
}

template <class Acknowledgement>
void encode_acknowledgement(const Acknowledgement& packet, Version version, Buffer& out) {
    assert(packet.packet_id != 0);
    constexpr unsigned flags = Acknowledgement::type == PacketType::pubrel ? 2 : 0;
    Body body(out, Acknowledgement::type, flags);
    put_u16(out, packet.packet_id);
    if (version == Version::v5_0) put_reason_and_properties(out, packet.reason, packet.properties);
    body.finish();
}

unsigned connect_flags(const Connect& packet) {
    unsigned flags = packet.clean_start ? 0x02 : 0;
    if (packet.will) {
        flags |= 0x04 | static_cast<unsigned>(packet.will->qos) << 3;
        if (packet.will->retain) flags |= 0x20;
    }
    if (packet.password) flags |= 0x40;
    if (packet.username) flags |= 0x80;
    return flags;
}

unsigned options_byte(const SubscribeOptions& options, Version version) {
    const auto qos = static_cast<unsigned>(options.qos);
    if (version != Version::v5_0) return qos;
    return qos | (options.no_local ? 0x04 : 0) | (options.retain_as_published ? 0x08 : 0) |
           static_cast<unsigned>(options.retain_handling) << 4;
}

// 3.1.1 has one way to say no (section 3.9.3).
unsigned suback_byte(Reason reason, Version version) {
    if (version != Version::v5_0 && is_error(reason)) return 0x80;
    return static_cast<unsigned>(reason);
}

std::size_t remaining_length(const Publish& packet, Version version) {
    return 2 + packet.topic.size() + (packet.qos == QoS::at_most_once ? 0 : 2) +
           (version == Version::v5_0 ? properties_size(packet.properties) : 0) +
           packet.payload.size();
}

}  // namespace

void encode(const Connect& packet, Buffer& out) {
    const bool v5 = packet.version == Version::v5_0;
    assert(v5 || packet.username || !packet.password);
    Body body(out, PacketType::connect);
    put_text(out, packet.version == Version::v3_1 ? "MQIsdp" : "MQTT");
    put_u8(out, static_cast<unsigned>(packet.version));
    put_u8(out, connect_flags(packet));
    put_u16(out, packet.keepalive);
    if (v5) put_properties(out, packet.properties);
    put_text(out, packet.client_id);
    if (packet.will) {
        if (v5) put_properties(out, packet.will->properties);
        put_text(out, packet.will->topic);
        put_text(out, packet.will->payload);
    }
    if (packet.username) put_text(out, *packet.username);
    if (packet.password) put_text(out, *packet.password);
    body.finish();
}

void encode(const Connack& packet, Version version, Buffer& out) {
    assert(!packet.session_present || packet.reason == Reason::success);
    const bool v5 = version == Version::v5_0;
    Body body(out, PacketType::connack);
    // 3.1 has no session present flag.
    put_u8(out, packet.session_present && version != Version::v3_1 ? 1 : 0);
    put_u8(out, v5 ? static_cast<unsigned>(packet.reason) : connect_return_code(packet.reason));
    if (v5) put_properties(out, packet.properties);
    body.finish();
}

Buffer refusing_connack(Version version, Reason reason, std::string_view words,
                        std::uint32_t max_packet_size, std::string_view server_reference) {
    const auto fits = [&](const Buffer& out) {
        return max_packet_size == 0 || out.size() <= max_packet_size;
    };
    PropertyList properties;
    properties.add(Property::reason_string, words);
    if (reason == Reason::use_another_server && !server_reference.empty())
        properties.add(Property::server_reference, server_reference);
    Buffer out;
    encode(Connack{.reason = reason, .properties = properties.view()}, version, out);
    if (fits(out)) return out;
    out.clear();
    encode(Connack{.reason = reason}, version, out);
    if (!fits(out)) out.clear();
    return out;
}

std::size_t encoded_size(const Publish& packet, Version version) {
    const std::size_t remaining = remaining_length(packet, version);
    return 1 + varint_size(remaining) + remaining;
}

void encode(const Publish& packet, Version version, Buffer& out) {
    assert(packet.qos == QoS::at_most_once ? !packet.dup : packet.packet_id != 0);
    const std::size_t remaining = remaining_length(packet, version);
    out.reserve(out.size() + 1 + varint_size(remaining) + remaining);
    put_u8(out, first_byte(PacketType::publish, (packet.dup ? 0x08 : 0) |
                                                    static_cast<unsigned>(packet.qos) << 1 |
                                                    (packet.retain ? 0x01 : 0)));
    put_varint(out, remaining);
    put_text(out, packet.topic);
    if (packet.qos != QoS::at_most_once) put_u16(out, packet.packet_id);
    if (version == Version::v5_0) put_properties(out, packet.properties);
    out.append(packet.payload);
}

void encode(const Puback& packet, Version version, Buffer& out) {
    encode_acknowledgement(packet, version, out);
}
void encode(const Pubrec& packet, Version version, Buffer& out) {
    encode_acknowledgement(packet, version, out);
}
void encode(const Pubrel& packet, Version version, Buffer& out) {
    encode_acknowledgement(packet, version, out);
}
void encode(const Pubcomp& packet, Version version, Buffer& out) {
    encode_acknowledgement(packet, version, out);
}

void encode(const Subscribe& packet, Version version, Buffer& out) {
    assert(packet.packet_id != 0 && !packet.filters.empty());
    Body body(out, PacketType::subscribe, 2);
    put_u16(out, packet.packet_id);
    if (version == Version::v5_0) put_properties(out, packet.properties);
    for (const SubscribeFilter& filter : packet.filters) {
        put_text(out, filter.filter);
        put_u8(out, options_byte(filter.options, version));
    }
    body.finish();
}

void encode(const Suback& packet, Version version, Buffer& out) {
    assert(packet.packet_id != 0 && !packet.reasons.empty());
    Body body(out, PacketType::suback);
    put_u16(out, packet.packet_id);
    if (version == Version::v5_0) put_properties(out, packet.properties);
    for (const Reason reason : packet.reasons) put_u8(out, suback_byte(reason, version));
    body.finish();
}

void encode(const Unsubscribe& packet, Version version, Buffer& out) {
    assert(packet.packet_id != 0 && !packet.filters.empty());
    Body body(out, PacketType::unsubscribe, 2);
    put_u16(out, packet.packet_id);
    if (version == Version::v5_0) put_properties(out, packet.properties);
    for (const std::string_view filter : packet.filters) put_text(out, filter);
    body.finish();
}

void encode(const Unsuback& packet, Version version, Buffer& out) {
    assert(packet.packet_id != 0);
    Body body(out, PacketType::unsuback);
    put_u16(out, packet.packet_id);
    if (version == Version::v5_0) {
        put_properties(out, packet.properties);
        for (const Reason reason : packet.reasons) put_u8(out, static_cast<unsigned>(reason));
    }
    body.finish();
}

void encode(Pingreq, Buffer& out) { out.append("\xC0\x00", 2); }
void encode(Pingresp, Buffer& out) { out.append("\xD0\x00", 2); }

void encode(const Disconnect& packet, Version version, Buffer& out) {
    Body body(out, PacketType::disconnect);
    if (version == Version::v5_0) put_reason_and_properties(out, packet.reason, packet.properties);
    body.finish();
}

void encode(const Auth& packet, Buffer& out) {
    assert(packet.reason == Reason::success || !packet.properties.empty());
    Body body(out, PacketType::auth);
    put_reason_and_properties(out, packet.reason, packet.properties);
    body.finish();
}

namespace {

void encode(const Connect& packet, Version, Buffer& out) { pulsegate::encode(packet, out); }
void encode(Pingreq packet, Version, Buffer& out) { pulsegate::encode(packet, out); }
void encode(Pingresp packet, Version, Buffer& out) { pulsegate::encode(packet, out); }
void encode(const Auth& packet, Version, Buffer& out) { pulsegate::encode(packet, out); }

}  // namespace

void encode(const Packet& packet, Version version, Buffer& out) {
    std::visit([&](const auto& alternative) { encode(alternative, version, out); }, packet);
}

}  // namespace pulsegate
