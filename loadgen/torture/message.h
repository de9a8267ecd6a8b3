#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "protocol/packet.h"

namespace pulsegate::torture {

/// Kinds of traffic, each with promises of its own.
enum class Kind : std::uint8_t { qos_1, qos_2, delayed, retained, will };

inline constexpr std::array all_kinds{Kind::qos_1, Kind::qos_2, Kind::delayed, Kind::retained,
                                      Kind::will};

/// For people: "QoS 1".
std::string_view name(Kind kind);

/// In topics, options and JSON: "qos1".
std::string_view word(Kind kind);
std::optional<Kind> kind_of(std::string_view word);

QoS qos_of(Kind kind);

/// Messages of one kind from one publisher to one receiver. They have one topic, and are numbered
/// from 1. Of a retained value, `to` says which of its publisher's topics it is set on.
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
};

/// "QoS 1 message 17 of publisher 3 to receiver 5".
std::string describe(const Message& message);

/// `run` tells the runs on one broker apart.
std::string topic_of(const Stream& stream, std::string_view run);
std::string filter_of_receiver(std::uint16_t number, std::string_view run);
std::string filter_of_retained(std::string_view run);

/// Names the message, and has up to 300 bytes more, always the same for a message.
std::string payload_of(const Message& message);
std::optional<Message> read_payload(std::string_view payload);

}  // namespace pulsegate::torture
