#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/time.h"
#include "protocol/packet.h"

namespace pulsegate::load {

/// The messages of QoS 1 and 2 that a client sends, in order, from `add` until they are
/// acknowledged. It returns the packets to send, but sends nothing.
///
/// The first ones are in flight; the others wait until the server's Receive Maximum has room, or
/// for the next connection.
class Outflow {
public:
    /// The maximum number of messages, in flight or waiting: more than a client ever has if the
    /// server answers.
    static constexpr std::size_t most_messages = 10'000;

    /// The packet to send next. Its views are valid until the next call.
    struct Packet {
        std::string_view publish{};  ///< an encoded PUBLISH, with DUP if it was sent before;
        std::uint16_t release = 0;   ///< or, if empty, the identifier of a PUBREL
    };

    /// The facts about a message with a known result.
    struct Message {
        std::uint64_t tag;
        Time sent;  ///< the first send; zero: never
        /// A later message of its QoS got the same kind of answer before it, on this connection.
        bool overtaken = false;
    };

    bool full() const { return messages_.size() >= most_messages; }
    bool uses(std::uint16_t id) const;

    /// An empty buffer for the next PUBLISH, with the memory of one that has been sent.
    std::string take_buffer();
    /// A message with this identifier in its encoded PUBLISH.
    void add(std::uint16_t id, QoS qos, std::uint64_t tag, std::string publish);

    /// The next packet in order, if `window` has room; it counts as sent `now`. `keep`: its bytes
    /// may be needed again by the next connection of a kept session.
    std::optional<Packet> next(std::size_t window, bool keep, Time now);

    /// PUBACK: the message is complete. Nothing if no message of QoS 1 awaits it.
    std::optional<Message> acknowledge(std::uint16_t id);
    /// PUBREC: the message of QoS 2, which must be released by a PUBREL. Nothing if there is none,
    /// or if it was released before.
    std::optional<Message> release(std::uint16_t id);
    /// PUBREC with an error: the same as `acknowledge`, for a message of QoS 2.
    std::optional<Message> refuse(std::uint16_t id);
    /// PUBCOMP: the same for a released message.
    std::optional<Message> complete(std::uint16_t id);

    /// The connection is gone: `next` will return the messages in flight again.
    void rewind() { in_flight_ = 0; }
    /// The session is gone: removes sent messages; the others keep their order.
    std::vector<Message> take_sent();
    std::vector<Message> take_all();

    std::size_t in_flight() const { return in_flight_; }
    std::size_t waiting() const { return messages_.size() - in_flight_; }
    bool empty() const { return messages_.empty(); }

    /// Bytes that it holds while it is empty.
    std::size_t memory() const { return messages_.capacity() * sizeof(Item) + sending_.capacity(); }

private:
    enum class State : std::uint8_t { unsent, sent, released };
    struct Item {
        Message message;
        std::string publish;
        std::uint16_t id;
        QoS qos;
        State state = State::unsent;
    };

    Item* find(std::uint16_t id, QoS qos, State state);
    std::optional<Message> remove(const Item* item);

    std::vector<Item> messages_;
    std::string sending_;  ///< the bytes that `next` returns, if they need not be kept
    std::size_t in_flight_ = 0;
};

}  // namespace pulsegate::load
