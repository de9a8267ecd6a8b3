#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "protocol/packet.h"

namespace pulsegate::kill {

/// Kinds of traffic, each with its own promises.
enum class Kind : std::uint8_t {
    qos_1,
    qos_2,
    mixed,
    inbox,
    room,
    shared,
    delayed,
    retained,
    will
};

inline constexpr std::array all_kinds{Kind::qos_1,   Kind::qos_2,    Kind::mixed,
                                      Kind::inbox,   Kind::room,     Kind::shared,
                                      Kind::delayed, Kind::retained, Kind::will};

/// For people: "QoS 1".
std::string_view name(Kind kind);

/// In topics, options and JSON: "qos1".
std::string_view word(Kind kind);
std::optional<Kind> kind_of(std::string_view word);

/// First deliveries keep the order of their stream.
bool is_ordered(Kind kind);

/// Messages of one kind from one publisher to one receiver. They have one topic, and are numbered
/// from 1. For a retained value, `to` is the number of its publisher's topic; for a shared message,
/// it is the group. A message to a room belongs to the stream of each member, with the same number.
struct Stream {
    Kind kind{};
    std::uint16_t from = 0;
    std::uint16_t to = 0;

    bool operator==(const Stream&) const = default;
    bool operator<(const Stream& other) const {
        return std::tie(kind, from, to) < std::tie(other.kind, other.from, other.to);
    }
};

struct Message {
    Stream stream;
    std::uint32_t number = 0;

    bool operator==(const Message&) const = default;
    bool operator<(const Message& other) const {
        return std::tie(stream, number) < std::tie(other.stream, other.number);
    }
};

/// Fixed by the kind, or changes from message to message.
QoS qos_of(const Message& message);

/// "QoS 1 message 17 of publisher 3 to receiver 5".
std::string describe(const Message& message);

/// The name of a client, such as "kill-19b0c-publisher-3". `run` distinguishes the runs on one
/// broker.
std::string client_name(std::string_view role, std::uint32_t number, std::uint64_t run);
/// Of a receiver: it is also the user that owns its inbox.
std::string user_of_receiver(std::uint16_t number, std::uint64_t run);

std::string topic_of(const Stream& stream, std::uint64_t run);
std::string filter_of_receiver(std::uint16_t number, std::uint64_t run);
std::string filter_of_group(std::uint16_t number, std::uint64_t run);
std::string filter_of_retained(std::uint64_t run);

/// Receivers become members of the rooms in turn.
inline constexpr std::uint16_t rooms = 3;
std::string room_of_receiver(std::uint16_t number, std::uint64_t run);

/// A payload of the load generator, which names the message. It has up to 300 bytes after its head,
/// and is always the same for a message.
std::string payload_of(const Message& message, std::uint64_t run);
/// Nothing if it is not the payload of a message of this run, or if it was changed.
std::optional<Message> read_payload(std::string_view payload, std::uint64_t run);

}  // namespace pulsegate::kill
