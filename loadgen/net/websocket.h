#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "protocol/bytes.h"
#include "protocol/websocket.h"

namespace pulsegate::load {

/// The client's side of a WebSocket that carries MQTT (RFC 6455; MQTT 5.0, section 6).

/// 16 random bytes, to recognize the answer by.
using WebSocketNonce = std::array<std::uint8_t, 16>;

/// The HTTP request that begins a WebSocket.
std::string upgrade_request(std::string_view host, std::uint16_t port, std::string_view path,
                            const WebSocketNonce& nonce);

/// The server's answer to it.
struct UpgradeAnswer {
    enum class Status : std::uint8_t { incomplete, accepted, refused, bad };
    Status status = Status::incomplete;
    std::size_t size = 0;  ///< accepted: frames follow
    std::string cause{};   ///< refused or bad: in words
};
UpgradeAnswer read_upgrade_answer(std::string_view received, const WebSocketNonce& nonce);

/// Longer answers are bad.
inline constexpr std::size_t longest_upgrade_answer = 8 * 1024;

/// Appends a frame, masked with `mask`, that is a whole message.
void append_frame(Buffer& out, Opcode opcode, std::string_view payload, std::uint32_t mask);
/// The same for a frame of a fragmented message: the first frame has the opcode, and the others
/// continue it.
void append_fragment(Buffer& out, Opcode opcode, bool last, std::string_view payload,
                     std::uint32_t mask);

/// Takes MQTT out of a server's frames, as `Unframer` does with a client's.
class ServerUnframer {
public:
    /// The maximum number of bytes that stay unconsumed: a control frame without its last byte.
    static constexpr std::size_t longest_rest = 2 + 125 - 1;

    /// Reads up to the first control frame or fault. Moves the payload to `to`, which is at or
    /// before the front of `in`. Bytes that are not consumed come again, with more bytes after
    /// them.
    Unframed next(std::span<std::uint8_t> in, std::uint8_t* to);

private:
    std::uint64_t left_ = 0;       ///< rest of this frame's payload
    bool inside_message_ = false;  ///< the last data frame did not end its message
};

}  // namespace pulsegate::load
