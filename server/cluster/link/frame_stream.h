#pragma once

#include <algorithm>
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

#include "server/base/clock.h"
#include "server/cluster/link/kept_frames.h"
#include "server/cluster/link/link_hello.h"

namespace pulsegate {

class LinkSocket;

/// A link between two nodes: it carries frames in both directions, each once and in order. It
/// outlives its connection: it goes on with the next one, if there is one soon.
///
/// A frame is the number of its bytes (u32, little endian, 1 to `largest_frame`), and then the
/// bytes. The number 0 and a position (u64) say that the node is there, and has received the frames
/// up to this position; see KeptFrames. A node sends them when it has sent nothing for a while, and
/// with its next write after it has received frames.
///
/// The stream belongs to the thread of an io_context, which keeps it until it ends. Objects of
/// other threads may send and end it, also while the io_context is destroyed.
class FrameStream : public std::enable_shared_from_this<FrameStream> {
public:
    struct Handlers {
        /// Gets one or more whole frames with their sizes.
        std::function<void(std::string_view frames)> received{};
        /// Called once; nothing is received afterwards. Not called if the io_context is destroyed
        /// first.
        std::function<void(const std::string& why)> ended{};
        /// While it returns true, nothing is read, so the other node must wait, too. May be null.
        std::function<bool()> is_full{};
        /// The stream has lost its connection (false), or has another one (true). May be null.
        std::function<void(bool is_connected)> changed{};
    };

    struct Limits {
        /// It sends a position after 4 ticks without a frame, and gives its connection up after 16
        /// ticks in which it received nothing. A process that was stopped has missed ticks, so it
        /// reads before it concludes that the other node is silent.
        std::chrono::milliseconds tick{250};
        /// The stream ends this long after the loss of its connection. 0: at once.
        int ticks_without_connection = 16;
        std::size_t most_waiting = std::size_t{64} << 20;
    };

    static constexpr std::size_t largest_frame = std::size_t{17} << 20;

    /// The limits of a link that `shards` shards write to. A shard stops only when it sees how much
    /// waits. Until then it may have added a few MiB and a frame.
    static Limits limits_for(unsigned shards) {
        Limits limits;
        const std::size_t of_shard = largest_frame + (std::size_t{4} << 20);
        limits.most_waiting = std::max(limits.most_waiting, shards * of_shard);
        return limits;
    }

    /// The position in the first bytes that a node sends on a connection after its hello. Nothing
    /// if `bytes` does not begin with a position.
    static std::optional<std::uint64_t> greeting(std::string_view bytes);
    static constexpr std::size_t greeting_bytes = 12;

    /// Call it on the io_context's thread. Nothing is read before `begin`, so a stream without
    /// `begin` ends as if the other node were silent. `name`: EdgeRequest::link.
    static std::shared_ptr<FrameStream> open(std::shared_ptr<LinkSocket> socket, LinkHello peer,
                                             std::uint64_t name, Limits limits);
    /// The stream of this thread's io_context with this name, to the node with this incarnation.
    static std::shared_ptr<FrameStream> find(const boost::asio::any_io_executor& executor,
                                             const std::string& incarnation, std::uint64_t name);
    ~FrameStream();
    FrameStream(const FrameStream&) = delete;
    FrameStream& operator=(const FrameStream&) = delete;

    /// Call it once, on the io_context's thread. The handlers are called on this thread, too.
    void begin(Handlers handlers);

    // Call it on the io_context's thread, to provide further connections: `lost` is called when the
    // stream has lost its connection and waits for another one.
    void on_loss(std::function<void()> lost) { lost_ = std::move(lost); }
    bool is_without_connection() const { return !socket_ && !has_ended_; }
    /// The position up to which it has received the frames of the other node.
    std::uint64_t received() const { return received_; }
    /// The time since the other node was last heard, at most. A process that stood still may have
    /// been sent something at any time since its last tick before that.
    Millis silence() const { return boot_now() - heard_; }
    /// True if the other node has acknowledged frames beyond this position, so that a connection
    /// that begins with it is an old one.
    bool is_outdated(std::uint64_t position) const { return position < kept_.acknowledged(); }
    /// Continues with this connection, and drops the earlier one, if any. `position` is the
    /// position up to which the other node has received. Returns false if the stream has ended, or
    /// ends because it can't continue there.
    bool resume(std::shared_ptr<LinkSocket> socket, std::uint64_t position);

    /// Any thread may call it. `frames` are whole frames with their sizes. Frames that are added
    /// during a write leave with the next write. After the end it does nothing. Returns the number
    /// of bytes that are not yet written.
    std::size_t send(std::string_view frames);
    /// Call it on the io_context's thread: shows the other node at once that this node is alive.
    void greet();
    /// Any thread may call it: the number of bytes that are not yet written to the connection.
    std::size_t waiting() const;

    /// Any thread may call it. Bytes that are not yet written are dropped.
    void end(std::string why);

    /// If the other node has connected to this one, its `has_redis` is not known.
    const LinkHello& peer() const { return peer_; }

private:
    class Registry;

    FrameStream(std::shared_ptr<LinkSocket> socket, LinkHello peer, std::uint64_t name,
                Limits limits);

    void use(std::shared_ptr<LinkSocket> socket);
    void end_soon(std::string why);
    void deliver(std::size_t begin, std::size_t end);
    bool has_stalled() const;
    void note_progress();
    void drop_connection();
    void lose_connection(const std::string& why);
    void finish(const std::string& why);
    void abandon();
    void await_tick();
    void tick();
    void read();
    void read_when_there_is_room();
    void take(std::size_t got);
    void want_write();
    void write();
    bool fill();
    void note_written(std::size_t bytes);

    // The following members belong to the io_context's thread.
    std::shared_ptr<LinkSocket> socket_{};  ///< null: it has no connection
    const LinkHello peer_;
    const std::uint64_t name_;
    const Limits limits_;
    const boost::asio::any_io_executor executor_;
    Registry& registry_;
    std::optional<boost::asio::steady_timer> timer_;
    std::optional<boost::asio::steady_timer> pause_;
    Handlers handlers_{};
    bool has_begun_ = false;
    bool has_ended_ = false;
    std::function<void()> lost_{};
    std::string why_{};  ///< why it has ended, or lost its connection
    Millis ticked_ = boot_now();
    Millis ticked_before_ = ticked_;  ///< when it ticked before that
    Millis heard_ = ticked_;          ///< the last bytes have come then, or later
    int unsent_ticks_ = 0;
    int silent_ticks_ = 0;    ///< ticks of silence on its connection, or without a connection
    std::string in_{};        ///< begins at the beginning of a frame
    std::size_t filled_ = 0;  ///< bytes of `in_` that were received
    std::uint64_t received_ = 0;
    std::uint64_t told_ = 0;  ///< the last value of `received_` that the other node was told
    bool must_tell_ = false;  ///< tells it again even if `told_` is up to date
    KeptFrames kept_{};
    std::uint64_t progress_ = 0;          ///< up to here, the other node has received
    std::optional<int> stalled_ticks_{};  ///< ticks since a connection was dropped, if nothing was
                                          ///< acknowledged since
    bool is_write_under_way_ = false;
    std::string going_{};           ///< the bytes that are being written
    std::size_t going_frames_ = 0;  ///< the place where its frames begin
    std::size_t gone_ = 0;          ///< bytes of `going_` that are written

    // Guarded by the mutex. While the stream is open, the io_context exists.
    mutable std::mutex mutex_{};
    bool is_open_ = true;
    bool is_writing_ = false;  ///< writes, or will write as soon as it has a connection
    std::string out_{};
    std::size_t waiting_ = 0;
};

}  // namespace pulsegate
