#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"
#include "server/loop/poller.h"
#include "server/session/terms/link.h"

namespace pulsegate {

/// Names a channel: the link to the edge, the edge's shard that has the client, and a number there.
struct ChannelName {
    std::uint64_t link = 0;
    std::uint32_t number = 0;
    std::uint16_t shard = 0;

    bool operator==(const ChannelName&) const = default;
};

class Channel;

/// What the edge is told about the end of a channel.
struct ChannelEnd {
    Cause cause = Cause::connection_lost;
    bool has_old_answer = false;  ///< the auth hook's answer was older than a revocation
};

/// Carries the messages of channels to their edges.
class ChannelPeer {
public:
    virtual void send(const ChannelName& channel, std::string_view bytes) = 0;
    /// May the channel send now? If not, its `go_on` is called later.
    virtual bool may_send(const ChannelName& channel) = 0;
    /// The channel has taken this many bytes of its input since the last call.
    virtual void tell_taken(const ChannelName& channel, std::uint32_t bytes) = 0;
    /// The client is logged in, with these terms; see Link.
    virtual void tell_accepted(const ChannelName& channel, Millis limit,
                               std::uint32_t largest_packet) = 0;
    /// Asks the edge how long the client has been silent.
    virtual void ask_silence(const ChannelName& channel) = 0;
    /// Is the link to the edge without a connection, or has it ended?
    virtual bool is_cut_off(const ChannelName& channel) const = 0;
    /// The channel is destroyed.
    virtual void forget(const ChannelName& channel, const ChannelEnd& end) = 0;

protected:
    ~ChannelPeer() = default;
};

/// This node's end of a connection with its socket on another node, the client's edge. It stands
/// for the socket: bytes of MQTT arrive in frames of the link to the edge, and leave in such
/// frames. Each direction has a window: if the other end has too many bytes that it has not taken,
/// the sender sends no further packet. Only whole packets travel, because the edge also sends
/// packets of its own.
///
/// It belongs to its connection, on the thread of the shard.
class Channel {
public:
    static constexpr std::uint32_t window = 64 * 1024;
    /// Taken bytes are reported when there are this many.
    static constexpr std::uint32_t report = window / 4;
    /// A larger packet does not fit into a frame of the link.
    static constexpr std::size_t largest_packet = std::size_t{16} << 20;

    Channel(const ChannelName& name, ChannelPeer& peer) : name_(name), peer_(peer) {}
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    const ChannelName& name() const { return name_; }

    // For the connection:

    /// Calls `polled` from now on when there is something to read, or room to write.
    void watch(Polled& polled) { polled_ = &polled; }
    /// Like recv on a socket: returns the number of bytes, 0 at the end, or -1 and `errno`.
    ssize_t receive(void* buffer, std::size_t size);
    /// `bytes` must be whole packets. Sends as many whole packets as the window allows. EMSGSIZE:
    /// the first one is too large.
    ssize_t send(std::string_view bytes);
    /// Sends these bytes even if the window is full.
    void send_last(std::string_view bytes);
    /// The client is logged in. The edge hears it after the CONNACK.
    void tell_accepted(Millis limit, std::uint32_t largest_packet);
    void ask_silence();
    /// Sets the reason for the end that the edge is told.
    void end(Cause cause) { end_.cause = cause; }
    /// The login is refused, because the auth hook allowed it before a revocation.
    void note_old_answer() { end_.has_old_answer = true; }

    /// Is the link to the edge gone? Then nothing arrives any more, and what is sent is lost.
    bool has_lost_edge() const { return has_lost_edge_; }
    /// Has it lost the edge, or would it lose the edge if the link got no other connection?
    bool is_cut_off() const { return has_lost_edge_ || (!has_ended_ && peer_.is_cut_off(name_)); }
    /// By how many ticks the end of the wait for the client was postponed since the last call, or
    /// since the edge was lost. `postponed`: by how many all such ends were postponed so far.
    Tick newly_postponed(Tick postponed) {
        return postponed - std::exchange(postponed_, postponed);
    }
    bool has_ended() const { return has_ended_; }
    /// The reason why the edge has ended it.
    const Ending& ending() const { return ending_; }
    /// The number of bytes that wait to be read.
    std::size_t unread() const { return input_.size() - read_; }

    // Call these for frames of the link. Each of them may destroy the channel:

    void arrive(std::string_view bytes);
    void widen(std::uint32_t bytes);
    /// The peer has room again.
    void go_on() { tell(false, true); }
    void arrive_end(const Ending& ending);
    void lose_edge();

private:
    struct Terms {
        Millis limit;
        std::uint32_t largest_packet;
    };

    void tell(bool readable, bool writable);
    void tell_terms();

    const ChannelName name_;
    ChannelPeer& peer_;
    Polled* polled_ = nullptr;
    std::string input_;
    std::size_t read_ = 0;  ///< bytes of `input_` that were received
    Tick postponed_ = 0;    ///< at the last call of `newly_postponed`
    Ending ending_{Cause::connection_lost, Reason::success, "the peer closed without DISCONNECT"};
    /// Bytes that may still be sent; negative after a packet that was larger.
    std::int64_t room_ = window;
    std::uint32_t taken_ = 0;  ///< not reported yet
    ChannelEnd end_{};
    std::optional<Terms> terms_{};  ///< terms of a client that is logged in, until the edge is told
    bool has_sent_ = false;
    bool has_ended_ = false;
    bool has_lost_edge_ = false;
};

}  // namespace pulsegate
