#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/cluster/link/link_hello.h"

namespace pulsegate {

class LinkSocket;

/// A connection between two nodes that carries frames in both directions. A frame is the number of
/// its bytes (u32, little endian, 1 to `largest_frame`), and then the bytes. A node that has sent
/// nothing for a while sends the number 0, so that the other node knows that it is there.
///
/// It belongs to the thread of an io_context, which keeps it until it ends. Objects of other
/// threads may send and end it, also while the io_context is destroyed.
class FrameStream : public std::enable_shared_from_this<FrameStream> {
public:
    struct Handlers {
        /// Gets whole frames, one or more, with their sizes.
        std::function<void(std::string_view frames)> received{};
        /// Called once, and then nothing is received. Not called if the io_context is destroyed
        /// first.
        std::function<void(const std::string& why)> ended{};
        /// While it returns true, nothing is read, so that the other node must wait, too. May be
        /// null.
        std::function<bool()> is_full{};
    };

    struct Limits {
        /// It sends the number 0 after 4 ticks without a frame, and ends after 16 ticks in which it
        /// received nothing. A process that was stopped has missed ticks, so it reads before it
        /// concludes that the other node is silent.
        std::chrono::milliseconds tick{250};
        std::size_t most_waiting = std::size_t{64} << 20;
    };

    static constexpr std::size_t largest_frame = std::size_t{17} << 20;

    /// On the io_context's thread. Nothing is read before `begin`. So a stream without `begin` ends
    /// as if the other node were silent.
    static std::shared_ptr<FrameStream> open(std::shared_ptr<LinkSocket> socket, LinkHello peer,
                                             Limits limits);
    ~FrameStream();
    FrameStream(const FrameStream&) = delete;
    FrameStream& operator=(const FrameStream&) = delete;

    /// Call it once, on the io_context's thread. The handlers are called on this thread, too.
    void begin(Handlers handlers);

    /// Any thread may call it. `frames` are whole frames with their sizes. Frames that are handed
    /// in while a write is under way leave with the next write. After the end it does nothing.
    /// Returns the number of bytes that are not yet written.
    std::size_t send(std::string_view frames);
    /// Shows the other node at once that this one is there.
    void greet();
    /// Any thread may call it: bytes that are not yet written.
    std::size_t waiting() const;

    /// Any thread may call it. Bytes that are not yet written are dropped.
    void end(std::string why);

    /// `has_redis` is not known of a node that has connected to this one.
    const LinkHello& peer() const { return peer_; }

private:
    class Registry;

    FrameStream(std::shared_ptr<LinkSocket> socket, LinkHello peer, Limits limits);

    void end_soon(std::string why);
    void deliver(std::size_t begin, std::size_t end);
    void finish(const std::string& why);
    void abandon();
    void await_tick();
    void tick();
    void read();
    void read_when_there_is_room();
    void take(std::size_t got);
    void write();

    // Of the io_context's thread.
    std::shared_ptr<LinkSocket> socket_;  ///< null: the stream has ended
    const LinkHello peer_;
    const Limits limits_;
    const boost::asio::any_io_executor executor_;
    Registry& registry_;
    std::optional<boost::asio::steady_timer> timer_;
    std::optional<boost::asio::steady_timer> pause_;
    Handlers handlers_{};
    std::string why_{};  ///< why it has ended
    int unsent_ticks_ = 0;
    int silent_ticks_ = 0;
    std::string in_{};        ///< begins with a frame
    std::size_t filled_ = 0;  ///< bytes of `in_` that were received
    std::string going_{};     ///< being written
    std::size_t gone_ = 0;    ///< bytes of `going_` that are written

    // Guarded by the mutex. While the stream is open, the io_context exists.
    mutable std::mutex mutex_{};
    bool is_open_ = true;
    bool is_writing_ = false;
    std::string out_{};
    std::size_t waiting_ = 0;
};

}  // namespace pulsegate
