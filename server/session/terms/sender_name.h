#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protocol/properties.h"
#include "server/message/message.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

// The sender of a message, which the gateway tells its receivers. On the chat topics, a message has
// the user property `sender-property`, which clients can't set there. Receivers of 3.1.1 have no
// properties, and may get the sender in the topic instead.

/// The reason why a client may not publish the message: it states a sender, or its topic leaves no
/// room for one. Nothing if there is no objection.
std::optional<Refusal> objection_to_sender(const BrokerSettings& settings, std::string_view user,
                                           std::string_view topic, const Properties& properties);

/// Adds the sending user to a message on a chat topic.
void state_sender(const BrokerSettings& settings, Message& message, std::string_view user);

/// The sender of a message on a chat topic; "": it is not known.
std::string_view sender_of(const BrokerSettings& settings, const Message& message);

/// `{topic}/{sender}`, which receivers of 3.1.1 get with `sender-in-topic`; nothing if the sender
/// is not known.
std::optional<std::string> topic_with_sender(const BrokerSettings& settings,
                                             const Message& message);

}  // namespace pulsegate
