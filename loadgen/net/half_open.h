#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "loadgen/net/descriptor.h"
#include "loadgen/net/loop.h"

namespace pulsegate::load {

/// Sockets that are no longer read or written, of clients that are in a dead zone or have changed
/// their network. Each is closed when the server has closed it, or when there are `most` younger
/// ones. Otherwise they would use up all descriptors if the server never notices.
class HalfOpenSockets {
public:
    static constexpr std::size_t most = 10'000;

    explicit HalfOpenSockets(Loop& loop, std::size_t at_most = most)
        : loop_(loop), most_(at_most) {}
    HalfOpenSockets(const HalfOpenSockets&) = delete;
    HalfOpenSockets& operator=(const HalfOpenSockets&) = delete;
    ~HalfOpenSockets();

    /// Takes over a socket that the loop watches for `from`.
    void take(Descriptor socket, Loop::Handler& from);

    std::size_t size() const { return sockets_.size(); }
    /// The number of sockets that were closed before the server had noticed.
    std::uint64_t given_up() const { return given_up_; }

private:
    class Socket final : public Loop::Handler {
    public:
        Socket(HalfOpenSockets& all, Descriptor its) : descriptor(std::move(its)), all_(all) {}
        void ready(std::uint32_t events) override;

        Descriptor descriptor;
        std::list<Socket>::iterator self{};

    private:
        HalfOpenSockets& all_;
    };

    void drop(Socket& socket);

    Loop& loop_;
    const std::size_t most_;
    std::uint64_t given_up_ = 0;
    std::list<Socket> sockets_;  ///< the oldest first
};

}  // namespace pulsegate::load
