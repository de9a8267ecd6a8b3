#include "server/session/publication.h"

#include "protocol/encode.h"

namespace pulsegate {

namespace {

/// Where the packet identifier of a PUBLISH stands: behind fixed header and topic.
std::size_t packet_id_offset(std::string_view packet, std::size_t topic_size) {
    std::size_t header = 2;
    while (static_cast<std::uint8_t>(packet[header - 1]) & 0x80) ++header;
    return header + 2 + topic_size;
}

}  // namespace

std::string_view Publication::packet(Version version, QoS qos, bool retain, std::uint16_t packet_id,
                                     std::span<const std::uint32_t> identifiers) {
    const auto level = static_cast<std::size_t>(qos);
    Buffer& bytes = identifiers.empty() ? shared_[level * 2 + (version == Version::v5_0)] : single_;
    if (!identifiers.empty()) bytes.clear();
    if (bytes.empty()) encode_into(bytes, version, qos, identifiers);

    bytes[0] = static_cast<char>((bytes[0] & ~1) | (retain ? 1 : 0));
    if (qos != QoS::at_most_once) {
        const auto at = packet_id_offset(bytes, message_.topic.size());
        bytes[at] = static_cast<char>(packet_id >> 8);
        bytes[at + 1] = static_cast<char>(packet_id & 0xFF);
    }
    return bytes;
}

void Publication::encode_into(Buffer& out, Version version, QoS qos,
                              std::span<const std::uint32_t> identifiers) const {
    Publish publish{
        .qos = qos, .topic = message_.topic, .packet_id = 1, .payload = message_.payload};
    PropertyList with_identifiers;
    if (identifiers.empty() || version == Version::v3_1_1) {
        publish.properties = Properties(as_bytes(message_.properties));
    } else {
        Properties(as_bytes(message_.properties)).for_each([&](const PropertyValue& property) {
            with_identifiers.add(property);
        });
        for (const auto identifier : identifiers)
            with_identifiers.add(Property::subscription_identifier, identifier);
        publish.properties = with_identifiers.view();
    }
    encode(publish, version, out);
}

}  // namespace pulsegate
