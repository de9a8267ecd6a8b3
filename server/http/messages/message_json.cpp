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
#include "server/http/serving/moment.h"
#include "server/message/topics.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

constexpr std::size_t most_in_a_request = 10'000;
constexpr std::size_t bytes_in_a_request = 16 * 1024 * 1024;
constexpr std::size_t longest_text = 0xFFFF;  // MQTT 5.0, 1.5.4

/// Throws if no client can have this name, or subscribe to its topic.
void check_name(std::string_view name, std::string_view what) {
    if (name.empty() || !valid_utf8(name) || has_control_character(name))
        throw BadRequest(
            ApiError::bad_member,
            fmt::format("the name of a {} is empty, or has a control character", what));
}

}  // namespace

MessageMembers::MessageMembers(const json::value& value, std::span<const std::string_view> known,
                               std::string_view what) {
    if (!value.is_object())
        throw BadRequest(ApiError::bad_json, fmt::format("{} must be a JSON object", what));
    object_ = &value.get_object();
    for (const auto& member : *object_)
        if (std::ranges::find(known, std::string_view(member.key())) == known.end())
            throw BadRequest(
                ApiError::unknown_member,
                fmt::format("'{}' is not a member of {}", std::string_view(member.key()), what));
}

std::optional<std::string> MessageMembers::text(std::string_view name) const {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_string())
        throw BadRequest(ApiError::bad_member, fmt::format("'{}' is not a string", name));
    return std::string(value->get_string());
}

std::optional<std::uint64_t> MessageMembers::count(std::string_view name,
                                                   std::uint64_t most) const {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    boost::system::error_code error;
    const auto count = value->to_number<std::uint64_t>(error);
    if (error || count > most)
        throw BadRequest(ApiError::bad_member,
                         fmt::format("'{}' is not a number from 0 to {}", name, most));
    return count;
}

std::optional<WallMillis> MessageMembers::moment(std::string_view name) const {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    const auto moment = moment_in(*value);
    if (!moment)
        throw BadRequest(
            ApiError::bad_member,
            fmt::format("'{}' is not a time: write it as in \"2026-11-27T16:00:00Z\", or "
                        "as a Unix time in seconds",
                        name));
    return moment;
}

bool MessageMembers::flag(std::string_view name) const {
    const auto* value = find(name);
    if (value && !value->is_bool())
        throw BadRequest(ApiError::bad_member, fmt::format("'{}' is not a boolean", name));
    return value && value->get_bool();
}

std::vector<std::string> MessageMembers::texts(std::string_view one, std::string_view many) const {
    std::vector<std::string> texts;
    if (auto single = text(one)) texts.push_back(*std::move(single));
    const auto* list = find(many);
    if (!list) return texts;
    if (!list->is_array())
        throw BadRequest(ApiError::bad_member, fmt::format("'{}' is not a list", many));
    for (const auto& each : list->get_array()) {
        if (!each.is_string())
            throw BadRequest(ApiError::bad_member,
                             fmt::format("'{}' has values that are not strings", many));
        texts.emplace_back(each.get_string());
    }
    return texts;
}

std::string MessageMembers::payload() const {
    const auto encoded = text("payload_base64");
    if (!encoded) return text("payload").value_or("");
    if (find("payload"))
        throw BadRequest(ApiError::conflicting_members,
                         "the message has both 'payload' and 'payload_base64'");
    auto decoded = from_base64(*encoded);
    if (!decoded) throw BadRequest(ApiError::bad_member, "'payload_base64' is not Base64");
    return *std::move(decoded);
}

std::vector<std::string> topics_of(const MessageMembers& members, const BrokerSettings& settings) {
    auto topics = members.texts("topic", "topics");
    for (const auto& user : members.texts("inbox", "inboxes")) {
        if (!settings.inbox)
            throw BadRequest(ApiError::bad_member,
                             "there are no inboxes: the setting inbox is off");
        check_name(user, "user");
        topics.push_back(inbox_topic(user));
    }
    for (const auto& room : members.texts("room", "rooms")) {
        check_name(room, "room");
        topics.push_back(room_topic(room));
    }
    if (topics.empty())
        throw BadRequest(ApiError::missing_member,
                         "the message has no topic, inbox or room, and no list of them");
    return topics;
}

std::string properties_of(const MessageMembers& members) {
    PropertyList list;
    const auto add = [&](const json::value* value, auto put) {
        if (!value) return;
        if (!value->is_string() || value->get_string().size() > longest_text ||
            !valid_utf8(value->get_string()))
            throw BadRequest(
                ApiError::bad_member,
                "'content_type' or a property is not text, or longer than 65535 bytes");
        put(std::string_view(value->get_string()));
    };
    add(members.find("content_type"),
        [&](std::string_view text) { list.add(Property::content_type, text); });
    const auto* properties = members.find("properties");
    if (!properties) return std::move(list).take();
    if (!properties->is_object())
        throw BadRequest(ApiError::bad_member, "'properties' is not an object");
    for (const auto& property : properties->get_object()) {
        const std::string_view key = property.key();
        if (!valid_utf8(key) || key.size() > longest_text)
            throw BadRequest(ApiError::bad_member,
                             "a property's name has a null character, or more than 65535 bytes");
        add(&property.value(), [&](std::string_view text) { list.add_user(key, text); });
    }
    return std::move(list).take();
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
        throw BadRequest(ApiError::too_many_entries,
                         fmt::format("more than {} messages", most_in_a_request));
    messages_ += messages;
    bytes_ += messages * bytes_each;
    if (bytes_ > bytes_in_a_request)
        throw BadRequest(ApiError::too_many_entries,
                         fmt::format("more than {} bytes of messages", bytes_in_a_request));
}

void check_publishable(std::string_view topic, std::string_view payload,
                       std::string_view properties, const BrokerSettings& settings) {
    if (!is_topic_name(topic) || topic.size() > settings.max_topic_length)
        throw BadRequest(ApiError::bad_topic,
                         fmt::format("'{}' is not a topic that can be published to", topic));
    if (settings.inbox && names_no_inbox(topic))
        throw BadRequest(ApiError::bad_topic,
                         "a user with a name of more than 1024 bytes has no inbox");
    if (reserved_topic(topic))
        throw BadRequest(ApiError::bad_topic, fmt::format("the topic '{}' is reserved", topic));
    if (topic.size() + payload.size() + properties.size() > settings.max_packet_size)
        throw BadRequest(ApiError::message_too_large, "the message is larger than max-packet-size");
}

void check_retain(const Message& message, const BrokerSettings& settings) {
    if (message.retain && !settings.retain_available)
        throw BadRequest(ApiError::bad_member, "'retain' is set, but retain-available is off");
}

void for_each_message(std::string_view body, const std::function<void(const json::value&)>& add) {
    const ParsedJson parsed = parse_json(body);
    if (!parsed.mistake.empty())
        throw BadRequest(ApiError::bad_json, "the body is not JSON: " + parsed.mistake);
    if (!parsed.value.is_array()) return add(parsed.value);
    std::size_t index = 0;
    try {
        for (const auto& value : parsed.value.get_array()) {
            add(value);
            ++index;
        }
    } catch (const BadRequest& wrong) {
        throw BadRequest(wrong.error,
                         fmt::format("message {} of the list: {}", index, wrong.sentence));
    }
}

}  // namespace pulsegate
