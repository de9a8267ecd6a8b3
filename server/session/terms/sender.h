#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protocol/properties.h"
#include "server/message/message.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

// Who has sent a message, told to its receivers by the gateway: on the chat topics a message
// carries the user property `sender-property`, which clients can't set there themselves. Receivers
// of 3.1.1 have no properties, and may be told by the topic instead.

/// Why a client may not publish this to the topic, if it may not: it states a sender itself, or
/// leaves no room for one.
std::optional<Refusal> objection_to_sender(const BrokerSettings& settings, std::string_view user,
                                           std::string_view topic, const Properties& properties);

/// Puts the user who sent it into a message on a chat topic.
void state_sender(const BrokerSettings& settings, Message& message, std::string_view user);

/// Who sent a message on a chat topic; "": it is not told.
std::string_view sender_of(const BrokerSettings& settings, const Message& message);

/// `{topic}/{sender}`, as receivers of 3.1.1 get it with `sender-in-topic`; nothing where the
/// sender is not told.
std::optional<std::string> topic_with_sender(const BrokerSettings& settings,
                                             const Message& message);

}  // namespace pulsegate
