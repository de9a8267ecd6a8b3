#include "tests/support/codec_check.h"

#include <algorithm>
#include <limits>

#include "protocol/encode.h"
#include "protocol/topic.h"

namespace pulsegate {

namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// Reads all texts and properties of a packet.
void use(const Packet& packet) {
    const auto use_properties = [](const Properties& properties) {
        properties.for_each([&](const PropertyValue& value) {
            if (value.id == Property::user_property || !value.text.empty()) {
                (void)properties.text(value.id);
            }
        });
    };
    std::visit(
        [&](const auto& body) {
            if constexpr (requires { body.properties; }) use_properties(body.properties);
            if constexpr (requires { body.topic; }) (void)valid_topic_name(body.topic);
        },
        packet);
    if (const auto* subscribe = std::get_if<Subscribe>(&packet))
        for (const SubscribeFilter& each : subscribe->filters)
            if (valid_topic_filter(each.filter)) (void)topic_matches(each.filter, "a/b/c");
}

}  // namespace

ExactCopy::ExactCopy(Bytes bytes)
    : bytes_(std::make_unique<std::uint8_t[]>(bytes.size())), size_(bytes.size()) {
    std::ranges::copy(bytes, bytes_.get());
}

const char* broken_promise(Bytes stream, Version version, Sender sender) {
    (void)claims_of_connect(stream);
    const Frame framed = next_frame(stream, unlimited);
    if (framed.status == Frame::Status::bad) {
        if (!framed.error.cause || !is_error(framed.error.reason)) return "a bad frame has a cause";
    }
    if (framed.status != Frame::Status::complete) {
        if (!std::holds_alternative<DecodeError>(decode(stream, version, sender)))
            return "what is no frame is no packet";
        return nullptr;
    }
    if (framed.size > stream.size()) return "a complete frame has arrived";

    const ExactCopy frame(stream.first(framed.size));
    const Decoded decoded = decode(frame.bytes(), version, sender);
    if (const auto* error = std::get_if<DecodeError>(&decoded)) {
        if (!error->cause || !is_error(error->reason)) return "an error has a cause";
        return nullptr;
    }
    const Packet& packet = std::get<Packet>(decoded);
    use(packet);

    if (const auto* connect = std::get_if<Connect>(&packet)) version = connect->version;
    Buffer encoded;
    encode(packet, version, encoded);
    if (encoded.size() > frame.bytes().size()) return "the encoder's form is the shortest";
    const ExactCopy copy(as_bytes(encoded));
    const Decoded again = decode(copy.bytes(), version, sender);
    if (!std::holds_alternative<Packet>(again)) return "what we encode can be decoded";
    if (std::get<Packet>(again) != packet) return "what we encode decodes to the same";
    return nullptr;
}

}  // namespace pulsegate
