#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/bytes.h"

namespace pulsegate {

enum class Opcode : std::uint8_t { continuation = 0, text, binary, close = 8, ping, pong };

/// Why a WebSocket ends (RFC 6455, section 7.4). A peer may give others, from 3000 to 4999.
enum class CloseCode : std::uint16_t {
    normal = 1000,
    going_away = 1001,
    protocol_error = 1002,
    unsupported_data = 1003,
    no_status = 1005,  ///< never sent: stands for a close frame without a code
    invalid_payload = 1007,
    policy_violation = 1008,
    too_large = 1009,
    internal_error = 1011,
    service_restart = 1012,
    try_again_later = 1013,
};

/// What a client's bytes contained.
struct [[nodiscard]] Unframed {
    enum class Event : std::uint8_t { none, ping, pong, close, bad };

    std::size_t payload = 0;   ///< bytes of MQTT, which came before the event
    std::size_t consumed = 0;  ///< bytes of input that are processed
    Event event = Event::none;
    CloseCode code = CloseCode::no_status;  ///< close: the client's; bad: the one to send
    /// Ping: the body to send back; pong: its body; close: the reason, valid UTF-8. It is in the
    /// buffer, so the next call may overwrite it.
    Bytes body;
    const char* cause = nullptr;  ///< bad: in words
};

/// Takes MQTT out of a client's WebSocket frames (RFC 6455, section 5), in the buffer they were
/// read into. The payload of a frame is passed on as it arrives, because the bounds of frames and
/// messages are independent of packets (MQTT 5.0, section 6). It owns no memory, and sends no
/// answers itself.
class Unframer {
public:
    /// The maximum number of bytes that stay unconsumed: a control frame without its last byte.
    static constexpr std::size_t longest_rest = 2 + 4 + 125 - 1;

    /// The maximum number of consecutive data frames without payload.
    static constexpr std::uint8_t most_empty_frames = 100;

    /// Reads up to the first control frame or fault. Moves the payload to `to`, which is at or
    /// before the front of `in`, so that the payload can follow earlier payload.
    ///
    /// If there is no event, everything was read except the beginning of a header or of a control
    /// frame. Keep the bytes that are not consumed, unchanged, in front of the next bytes. After
    /// ping or pong there may be more to read: call again. After close or bad, discard all further
    /// bytes.
    Unframed next(std::span<std::uint8_t> in, std::uint8_t* to, std::uint64_t max_frame_size);

    /// The state that another object needs to continue, between two calls of `next` and before the
    /// end.
    struct State {
        std::uint64_t left = 0;
        std::array<std::uint8_t, 4> mask{};
        std::uint8_t empty_frames = 0;
        bool inside_message = false;
    };
    State state() const { return {left_, mask_, empty_frames_, inside_message_}; }
    Unframer() = default;
    explicit Unframer(const State& state)
        : left_(state.left),
          mask_(state.mask),
          empty_frames_(state.empty_frames),
          inside_message_(state.inside_message) {}

    /// The same; the payload is moved to the front of `in`.
    Unframed next(std::span<std::uint8_t> in, std::uint64_t max_frame_size) {
        return next(in, in.data(), max_frame_size);
    }

private:
    Unframed::Event read(std::span<std::uint8_t> in, std::uint8_t* to, std::uint64_t max_frame_size,
                         Unframed& result);
    std::size_t take_payload(Bytes in, std::uint8_t* to);

    std::uint64_t left_ = 0;              ///< rest of this data frame's payload
    std::array<std::uint8_t, 4> mask_{};  ///< rotated so that the next byte's key is first
    std::uint8_t empty_frames_ = 0;       ///< in a row
    bool inside_message_ = false;         ///< the last data frame did not end its message
    bool over_ = false;                   ///< after close or bad
};
static_assert(sizeof(Unframer) <= 16);

/// The header of a frame that a server sends: whole messages, not masked.
class FrameHeader {
public:
    FrameHeader(Opcode opcode, std::uint64_t size);
    Bytes bytes() const { return {bytes_.data(), size_}; }

private:
    std::array<std::uint8_t, 10> bytes_{};
    std::uint8_t size_ = 2;
};

inline FrameHeader frame_header(Opcode opcode, std::uint64_t size) { return {opcode, size}; }

/// Answers a ping with its body.
void append_pong(Buffer& out, Bytes body);

/// A ping without a body.
void append_ping(Buffer& out);

/// With `no_status`, the close frame has no body. The reason is UTF-8 with at most 123 bytes.
void append_close(Buffer& out, CloseCode code, std::string_view reason = {});

}  // namespace pulsegate
