#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocol/bytes.h"

namespace pulsegate::load {

/// Frames of the control connection: length (four bytes, the first is the highest), kind, body.
enum class FrameKind : char { json = 'J', flows = 'F', token = 'T' };

struct Frame {
    FrameKind kind = FrameKind::json;
    std::string body;
};

constexpr std::uint32_t largest_frame = 64 << 20;

void append_frame(std::string& out, FrameKind kind, std::string_view body);

/// Cuts a stream of bytes into frames.
class FrameReader {
public:
    /// A peer that has not shown its token may send only small frames.
    explicit FrameReader(std::uint32_t most = largest_frame) : most_(most) {}

    void allow(std::uint32_t most) { most_ = most; }
    void add(Bytes bytes);

    /// It has more than a frame: take frames before adding more bytes.
    bool full() const { return bytes_.size() - read_ > most_ + std::size_t{5}; }

    /// The next complete frame. Nothing if more bytes are needed, or if the stream is `broken`.
    std::optional<Frame> next();

    /// The peer sent something that is not a frame; nothing more can be read.
    bool broken() const { return broken_; }

private:
    std::uint32_t most_;
    std::string bytes_;
    std::size_t read_ = 0;
    bool broken_ = false;
};

/// The body of a flows frame begins with the number of the worker that it is for.
std::optional<std::uint32_t> receiver_of(std::string_view flows);

}  // namespace pulsegate::load
