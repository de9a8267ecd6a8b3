#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// The topics that have a meaning for the gateway; no other file spells them out:
///
///     presence/{user}            who is online: only the gateway publishes it
///     inbox/{user}               what all devices of the user get, without a subscription
///     room/{room}                what all members of the room get, without a subscription
///     inbox/..., room/...        chat: the gateway tells who has sent a message
///     $delayed/{when}/{topic}    publishes to `topic` later, see DelayedTopic
///     $delayed/cancel/{which}    cancels that
///     $...                       all else is the server's own (MQTT 5.0, 4.7.2)
///
/// `{user}` is the user's name as one level, percent-encoded; so is `{room}`. Each name has one
/// encoding only, so that a user has one topic and rules can compare bytes. `$share/` is in
/// protocol/topic.h, because the validity of a filter depends on it.

inline constexpr std::string_view presence_level = "presence";

/// The longest name, in bytes, of a room with members, and of a user who has an inbox, is a member
/// of rooms or watches others.
inline constexpr std::size_t longest_name = 1024;

/// A user's name as one level of a topic: `/`, `+`, `#` and `%` are percent-encoded.
std::string topic_level(std::string_view user);

/// True if `level` is the encoded name of that user. Allocates nothing.
bool is_topic_level(std::string_view level, std::string_view user);

/// `presence/{user}`
std::string presence_topic(std::string_view user);

/// The user, if this filter selects one user's presence: `presence/{user}` or `presence/{user}/#`.
std::optional<std::string> presence_user(std::string_view filter);

/// The part `presence/{user}` of a topic or filter that is, or lies below, a user's presence;
/// nothing for others. In a filter, the user may be a wildcard.
std::optional<std::string_view> presence_of(std::string_view topic);

/// True if this filter selects the presence of all users. A filter that begins with a wildcard
/// never does.
bool selects_all_presence(std::string_view filter);

/// `inbox/{user}`
std::string inbox_topic(std::string_view user);

/// The user, if this topic is a user's inbox.
std::optional<std::string> inbox_user(std::string_view topic);

/// True if the topic is an inbox, and the user's name in it is too long.
bool names_no_inbox(std::string_view topic);

/// `room/{room}`
std::string room_topic(std::string_view room);

/// The part `room/{room}` of a topic or filter that is, or lies below, a room; nothing for others.
/// In a filter, the room may be a wildcard.
std::optional<std::string_view> room_of(std::string_view topic);

/// The name of the room with this topic.
std::string room_name(std::string_view topic);

/// The filter for all rooms and the topics below them.
inline constexpr std::string_view all_rooms = "room/#";

/// True if the gateway tells receivers the sender of a message to this topic.
bool is_chat_topic(std::string_view topic);

/// A topic that begins with `$delayed/`.
struct DelayedTopic {
    std::uint64_t when = 0;     ///< a number of seconds, or a Unix time
    std::string_view topic{};   ///< the topic to publish to; empty: the topic is malformed
    std::string_view cancel{};  ///< name or number of the message to be cancelled

    bool cancels() const { return !cancel.empty(); }
};
/// Nothing for other topics.
std::optional<DelayedTopic> delayed_topic(std::string_view topic);

/// True if it is a valid topic to publish to, reserved or not. As for clients, control characters
/// are not allowed.
bool is_topic_name(std::string_view text);

/// True if it is a valid topic filter, but not a shared subscription's.
bool is_plain_filter(std::string_view text);

/// True for topics that clients may not publish to, now or later: only the gateway publishes
/// presence, and `$` topics are reserved for the server.
bool reserved_topic(std::string_view topic);

/// True for topics that a filter with a leading wildcard does not select: `$` topics (MQTT 5.0,
/// 4.7.2), and presence, because a subscriber to "#" did not ask for all presence changes.
bool hidden_from_leading_wildcard(std::string_view topic);

}  // namespace pulsegate
