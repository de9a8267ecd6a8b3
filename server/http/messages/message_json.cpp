#include "server/http/messages/message_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <utility>

#include "protocol/properties.h"
#include "protocol/utf8.h"
#include "server/auth/base64.h"
#include "server/base/text/strict_json.h"
#include "server/http/serving/bad_request.h"
#include "server/message/topics.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

constexpr std::size_t most_in_a_request = 10'000;
constexpr std::size_t bytes_in_a_request = 16 * 1024 * 1024;

}  // namespace

MessageMembers::MessageMembers(const json::value& value, std::span<const std::string_view> known) {
    if (!value.is_object()) throw BadRequest("a message is a JSON object");
    object_ = &value.get_object();
    for (const auto& member : *object_)
        if (std::ranges::find(known, std::string_view(member.key())) == known.end())
            throw BadRequest(
                fmt::format("'{}' is no member of a message", std::string_view(member.key())));
}

std::optional<std::string> MessageMembers::text(std::string_view name) const {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_string()) throw BadRequest(fmt::format("'{}' is no string", name));
    return std::string(value->get_string());
}

std::optional<std::uint64_t> MessageMembers::count(std::string_view name,
                                                   std::uint64_t most) const {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    boost::system::error_code error;
    const auto count = value->to_number<std::uint64_t>(error);
    if (error || count > most)
        throw BadRequest(fmt::format("'{}' is no number from 0 to {}", name, most));
    return count;
}

bool MessageMembers::flag(std::string_view name) const {
    const auto* value = find(name);
    if (value && !value->is_bool()) throw BadRequest(fmt::format("'{}' is no boolean", name));
    return value && value->get_bool();
}

std::vector<std::string> MessageMembers::texts(std::string_view one, std::string_view many) const {
    std::vector<std::string> texts;
    if (auto single = text(one)) texts.push_back(*std::move(single));
    const auto* list = find(many);
    if (!list) return texts;
    if (!list->is_array()) throw BadRequest(fmt::format("'{}' is no list", many));
    for (const auto& each : list->get_array()) {
        if (!each.is_string()) throw BadRequest(fmt::format("'{}' has more than strings", many));
        texts.emplace_back(each.get_string());
    }
    return texts;
}

std::string MessageMembers::payload() const {
    const auto encoded = text("payload_base64");
    if (!encoded) return text("payload").value_or("");
    if (find("payload")) throw BadRequest("it has both 'payload' and 'payload_base64'");
    auto decoded = from_base64(*encoded);
    if (!decoded) throw BadRequest("'payload_base64' is no Base64");
    return *std::move(decoded);
}

void add_payload(json::object& described, std::string_view payload) {
    if (valid_utf8(payload))
        described["payload"] = payload;
    else
        described["payload_base64"] = to_base64(payload);
}

void add_properties(json::object& described, std::string_view properties) {
    json::object users;
    Properties(as_bytes(properties)).for_each([&](const PropertyValue& property) {
        if (property.id == Property::content_type) described["content_type"] = property.text;
        if (property.id == Property::user_property) users[property.key] = property.text;
    });
    if (!users.empty()) described["properties"] = std::move(users);
}

void RequestRoom::take(std::size_t messages, std::size_t bytes_each) {
    if (messages > most_in_a_request - messages_)
        throw BadRequest(fmt::format("more than {} messages", most_in_a_request));
    messages_ += messages;
    bytes_ += messages * bytes_each;
    if (bytes_ > bytes_in_a_request)
        throw BadRequest(fmt::format("more than {} bytes of messages", bytes_in_a_request));
}

void check_publishable(std::string_view topic, std::string_view payload,
                       std::string_view properties, const BrokerSettings& settings) {
    if (!is_topic_name(topic) || topic.size() > settings.max_topic_length)
        throw BadRequest(fmt::format("'{}' is no topic that can be published to", topic));
    if (settings.inbox && names_no_inbox(topic))
        throw BadRequest("a user with a name of more than 1024 bytes has no inbox");
    if (reserved_topic(topic)) throw BadRequest(fmt::format("the topic '{}' is reserved", topic));
    if (topic.size() + payload.size() + properties.size() > settings.max_packet_size)
        throw BadRequest("it is larger than max-packet-size");
}

void check_retain(const Message& message, const BrokerSettings& settings) {
    if (message.retain && !settings.retain_available)
        throw BadRequest("'retain' is set, and retain-available is off");
}

void for_each_message(std::string_view body, const std::function<void(const json::value&)>& add) {
    const ParsedJson parsed = parse_json(body);
    if (!parsed.mistake.empty()) throw BadRequest("the body is no JSON: " + parsed.mistake);
    if (!parsed.value.is_array()) return add(parsed.value);
    std::size_t index = 0;
    try {
        for (const auto& value : parsed.value.get_array()) {
            add(value);
            ++index;
        }
    } catch (const BadRequest& wrong) {
        throw BadRequest(fmt::format("message {} of the list: {}", index, wrong.what()));
    }
}

}  // namespace pulsegate
