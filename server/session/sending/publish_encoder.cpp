#include "server/session/sending/publish_encoder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "protocol/encode.h"
#include "server/session/terms/sender_name.h"

namespace pulsegate {

namespace {

/// A buffer for the first encoding of the thread's next message. Most messages need only one.
thread_local Buffer spare;

void put_number(Buffer& bytes, std::size_t at, std::uint16_t number) {
    bytes[at] = static_cast<char>(number >> 8);
    bytes[at + 1] = static_cast<char>(number & 0xFF);
}

std::uint16_t number_at(std::string_view bytes, std::size_t at) {
    return static_cast<std::uint16_t>(static_cast<std::uint8_t>(bytes[at]) << 8 |
                                      static_cast<std::uint8_t>(bytes[at + 1]));
}

/// The end of the variable byte integer that begins at `at`.
std::size_t end_of_length(std::string_view bytes, std::size_t at) {
    while (static_cast<std::uint8_t>(bytes[at]) & 0x80) ++at;
    return at + 1;
}

}  // namespace

PublishEncoder::~PublishEncoder() {
    // A larger buffer is not kept, because it would stay in memory.
    constexpr std::size_t largest = 16 * 1024;
    if (encodings_.empty() || encodings_.front().bytes.capacity() > largest) return;
    spare = std::move(encodings_.front().bytes);
    spare.clear();
}

std::string_view PublishEncoder::packet(const PublishOptions& options) {
    const bool own = options.version == Version::v5_0 && !options.identifiers.empty();
    if (own) single_.clear();
    Buffer& bytes = own ? single_ : encoding(options);
    if (bytes.empty()) encode_into(bytes, options);

    constexpr int dup_and_retain = 0x09;
    bytes[0] = static_cast<char>((bytes[0] & ~dup_and_retain) | (options.dup ? 0x08 : 0) |
                                 (options.retain ? 0x01 : 0));
    std::size_t at = end_of_length(bytes, 1);
    at += 2 + std::size_t{number_at(bytes, at)};  // the topic
    if (options.qos != QoS::at_most_once) {
        put_number(bytes, at, options.packet_id);
        at += 2;
    }
    // The alias is the first property.
    if (options.alias != 0) put_number(bytes, end_of_length(bytes, at) + 1, options.alias);
    return bytes;
}

/// The shared encoding for these options; empty if no receiver has needed it yet.
Buffer& PublishEncoder::encoding(const PublishOptions& options) {
    const auto aliasing = options.alias == 0    ? Aliasing::none
                          : options.alias_known ? Aliasing::known
                                                : Aliasing::introduced;
    const Kind kind{options.version == Version::v5_0, options.qos, aliasing};
    const auto found = std::ranges::find(encodings_, kind, &Encoding::kind);
    if (found != encodings_.end()) return found->bytes;
    return encodings_.emplace_back(Encoding{kind, std::exchange(spare, {})}).bytes;
}

void PublishEncoder::encode_into(Buffer& out, const PublishOptions& options) const {
    Publish publish{.qos = options.qos,
                    .topic = options.alias_known ? std::string_view() : message_.topic,
                    .packet_id = 1,
                    .payload = message_.payload};
    PropertyList properties;
    std::optional<std::string> topic;
    if (options.version == Version::v5_0) {
        if (options.alias != 0) properties.add(Property::topic_alias, options.alias);
        if (message_.expires != 0) {
            const Millis left = std::max<Millis>(message_.expires - now_, 0);
            properties.add(Property::message_expiry_interval,
                           static_cast<std::uint32_t>((left + 999) / 1000));
        }
        properties.append(message_.properties);
        for (const auto identifier : options.identifiers)
            properties.add(Property::subscription_identifier, identifier);
        publish.properties = properties.view();
    } else {
        topic = topic_with_sender(settings_, message_);
        if (topic) publish.topic = *topic;
    }
    encode(publish, options.version, out);
}

}  // namespace pulsegate
