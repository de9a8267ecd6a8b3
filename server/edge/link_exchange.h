#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/base/clock.h"

namespace pulsegate {

class FrameStream;

/// News of a link for one shard.
struct LinkMail {
    enum class Kind : std::uint8_t {
        begun,
        frames,
        cut_off,    ///< it has lost its connection, and may get another one
        connected,  ///< it has another one
        ended,
    };
    Kind kind{};
    std::uint64_t link = 0;
    std::string frames{};           ///< see edge_frames.h
    std::uint16_t peer_shards = 0;  ///< `begun`: the number of shards of the other node
    std::string node{};             ///< `begun`: the incarnation of the other node
    std::uint16_t version = 1;      ///< `begun`: of the link's protocol
    Millis silence = 0;             ///< `cut_off`: the time since the other node was last heard
};

/// The links of this node to other nodes. It gives each frame to its shard. Any thread may use it.
class LinkExchange {
public:
    /// Is this node the home of the clients, or an edge?
    enum class Side : std::uint8_t { home, edge };
    struct Shards {
        unsigned count = 0;
        /// Called on the thread of the links, for frames that have arrived.
        std::function<void(unsigned shard, LinkMail mail)> deliver{};
        /// Do the shards have so much mail that the links must not be read?
        std::function<bool()> are_behind{};
    };

    /// If more than this many bytes wait for a link, its clients must wait. A link with far more
    /// ends.
    static constexpr std::size_t enough = std::size_t{4} << 20;

    LinkExchange(Side side, Shards shards);
    ~LinkExchange() { close(); }
    LinkExchange(const LinkExchange&) = delete;
    LinkExchange& operator=(const LinkExchange&) = delete;

    void add(std::shared_ptr<FrameStream> stream);
    /// Frames for a link that has ended are dropped. Returns the number of bytes that are not yet
    /// written to the link.
    std::size_t send(std::uint64_t link, std::string_view frames);
    /// Is there a link?
    bool is_linked() const;
    /// The number of bytes that are not yet written to this link, or to all links.
    std::size_t waiting(std::uint64_t link) const;
    std::size_t waiting() const;
    void end_all(const std::string& why);
    /// From its return on, `deliver` is not called any more.
    void close();

private:
    class State;
    const std::shared_ptr<State> state_;
};

}  // namespace pulsegate
