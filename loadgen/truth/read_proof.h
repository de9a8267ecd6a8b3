#pragma once

#include <cstdint>

namespace pulsegate::load {

/// What the server has surely read of what a client sent: a PUBACK or PUBCOMP proves that the
/// server had read everything before the PUBLISH on that connection. A PINGRESP proves nothing,
/// because another node of a cluster may send it.
///
/// It divides the client's time into parts. A part ends when the client sends a packet whose answer
/// is a proof, or begins a connection. One proof is awaited at a time, so some proofs are missed,
/// but none is invented. It knows the parts of this connection and of the one before.
class ReadProof {
public:
    /// A connection begins. `broken`: how many connections the server has broken so far. A server
    /// that crashed may have forgotten what it had read.
    void connected(std::uint32_t broken) {
        before_ = last_;
        last_ = {++part_, part_, broken};
        if (before_.broken != broken) trusted_ = part_;
        awaits_ = false;
    }

    /// A packet is about to be sent; `packet` is different for each packet without an answer.
    void asks(std::uint64_t packet) {
        if (awaits_) return;
        awaits_ = true;
        packet_ = packet;
        ++part_;
    }
    void answered(std::uint64_t packet) {
        if (gives_up(packet)) last_.proven = part_;
    }
    /// The packet was not sent. Returns false if it was not the one that is awaited.
    bool gives_up(std::uint64_t packet) {
        const bool awaited = awaits_ && packet_ == packet;
        if (awaited) awaits_ = false;
        return awaited;
    }

    /// The present part. Acknowledgements of what arrives now belong to it.
    std::uint32_t part() const { return part_; }
    /// Has the server surely read what the client sent in this part?
    bool covers(std::uint32_t part) const { return last_.covers(part) || before_.covers(part); }
    /// Does what the server had read in this part still hold? A crash may have lost it.
    bool trusts(std::uint32_t part) const { return part >= trusted_; }
    /// Has the server broken no connection since the last but one began?
    bool holds(std::uint32_t broken) const { return before_.broken == broken; }

private:
    struct Connection {
        std::uint32_t begin = 0;   ///< its first part
        std::uint32_t proven = 0;  ///< its first part without a proof
        std::uint32_t broken = 0;

        bool covers(std::uint32_t part) const { return part >= begin && part < proven; }
    };

    std::uint64_t packet_ = 0;
    std::uint32_t part_ = 0;
    std::uint32_t trusted_ = 0;  ///< the first part after the last crash
    bool awaits_ = false;
    Connection last_;
    Connection before_;
};

static_assert(sizeof(ReadProof) <= 48);

}  // namespace pulsegate::load
