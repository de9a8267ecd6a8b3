#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "loadgen/net/descriptor.h"
#include "loadgen/net/loop.h"

namespace pulsegate::load {

/// Sockets that nobody reads or writes any more: of clients that are in a dead zone, or have
/// changed their network. Each is closed when the server has closed it.
class HalfOpenSockets {
public:
    explicit HalfOpenSockets(Loop& loop) : loop_(loop) {}
    HalfOpenSockets(const HalfOpenSockets&) = delete;
    HalfOpenSockets& operator=(const HalfOpenSockets&) = delete;
    ~HalfOpenSockets();

    /// Takes over a socket that the loop watches for `from`.
    void take(Descriptor socket, Loop::Handler& from);

    std::size_t size() const { return sockets_.size(); }

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

    Loop& loop_;
    std::list<Socket> sockets_;
};

}  // namespace pulsegate::load
