#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>

#include "protocol/bytes.h"
#include "protocol/websocket.h"

namespace pulsegate {

/// Reads a WebSocket client's bytes as a connection does, in place and from one buffer after the
/// other, and records the result: "<MQTT> ping(x) <more MQTT> close(1000 bye)".
class FrameReader {
public:
    explicit FrameReader(std::uint64_t max_frame_size = std::numeric_limits<std::uint64_t>::max())
        : max_frame_size_(max_frame_size) {}

    /// One read from the socket; the payload is moved to `before` bytes in front of it.
    void read(std::string_view bytes, std::size_t before = 0);

    /// The same bytes in as many reads as there are.
    void read_bytewise(std::string_view bytes);

    /// The same in reads of 1 to `longest` bytes.
    void read_cut(std::string_view bytes, std::size_t longest, std::mt19937& random);

    const std::string& transcript() const { return transcript_; }
    std::size_t kept() const { return rest_.size(); }  ///< bytes that wait for more

private:
    void note(std::string_view payload);
    void note(const Unframed& result);

    Unframer unframer_;
    std::uint64_t max_frame_size_;
    std::string rest_;
    std::string transcript_;
    bool inside_payload_ = false;
};

/// Checks what must hold for any bytes: WebSocket frames and PROXY headers give the same result
/// however the bytes are cut into reads. Returns what does not hold, or null.
const char* broken_framing_promise(Bytes stream, std::uint64_t max_frame_size);

}  // namespace pulsegate
