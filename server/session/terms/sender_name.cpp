#include "server/session/terms/sender_name.h"

#include <utility>

#include "server/message/topics.h"

namespace pulsegate {

namespace {

constexpr std::size_t longest_topic = 65'535;

bool tells_sender(const BrokerSettings& settings, std::string_view topic) {
    return !settings.sender_property.empty() && is_chat_topic(topic);
}

/// The first such property is the gateway's. Others may follow, which clients stored before the
/// setting was on.
std::optional<std::string_view> stated_sender(const BrokerSettings& settings,
                                              const Properties& properties) {
    std::optional<std::string_view> sender;
    properties.for_each([&](const PropertyValue& property) {
        if (!sender && property.id == Property::user_property &&
            property.key == settings.sender_property)
            sender = property.text;
    });
    return sender;
}

std::string with_sender(std::string_view topic, std::string_view sender) {
    return std::string(topic) + '/' + topic_level(sender);
}

}  // namespace

std::optional<Refusal> objection_to_sender(const BrokerSettings& settings, std::string_view user,
                                           std::string_view topic, const Properties& properties) {
    if (!tells_sender(settings, topic)) return std::nullopt;
    if (stated_sender(settings, properties))
        return Refusal{Reason::not_authorized,
                       "it has the user property for the sender, which only the gateway may set"};
    if (user.size() > longest_topic)
        return Refusal{Reason::not_authorized,
                       "the name of its user is too long for the sender property"};
    if (settings.sender_in_topic && with_sender(topic, user).size() > longest_topic)
        return Refusal{Reason::topic_name_invalid, "the topic leaves no room for its sender"};
    return std::nullopt;
}

void state_sender(const BrokerSettings& settings, Message& message, std::string_view user) {
    if (!tells_sender(settings, message.topic)) return;
    PropertyList properties;
    properties.add_user(settings.sender_property, user).append(message.properties);
    message.properties = std::move(properties).take();
}

std::string_view sender_of(const BrokerSettings& settings, const Message& message) {
    if (!tells_sender(settings, message.topic)) return {};
    return stated_sender(settings, Properties(as_bytes(message.properties))).value_or("");
}

/// Returns nothing if the topic leaves no room. Only backends can publish to such a topic.
std::optional<std::string> topic_with_sender(const BrokerSettings& settings,
                                             const Message& message) {
    if (!settings.sender_in_topic) return std::nullopt;
    const auto sender = sender_of(settings, message);
    auto topic = with_sender(message.topic, sender);
    if (sender.empty() || topic.size() > longest_topic) return std::nullopt;
    return topic;
}

}  // namespace pulsegate
