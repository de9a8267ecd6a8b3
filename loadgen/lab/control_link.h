#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "loadgen/lab/frames.h"
#include "loadgen/net/descriptor.h"

namespace pulsegate::load {

/// One end of a control connection: frames over a stream socket that never blocks.
class ControlLink {
public:
    explicit ControlLink(Descriptor socket, std::uint32_t largest = largest_frame);

    int fd() const { return socket_.get(); }

    /// Queues a frame, and sends as much as the socket accepts.
    void send(FrameKind kind, std::string_view body);

    /// Moves bytes in both directions. Call it when the socket is readable or writable. Returns
    /// false when the peer is gone or sent something that is not a frame. Complete frames can still
    /// be taken.
    bool move();
    bool wants_to_write() const { return sent_ < out_.size(); }

    std::optional<Frame> next() { return in_.next(); }
    void allow(std::uint32_t largest) { in_.allow(largest); }

private:
    bool read();
    bool write();

    Descriptor socket_;
    FrameReader in_;
    std::string out_;
    std::size_t sent_ = 0;
    bool gone_ = false;
};

}  // namespace pulsegate::load
