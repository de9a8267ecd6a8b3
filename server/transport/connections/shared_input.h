#pragma once

#include <cstdint>
#include <vector>

#include "protocol/bytes.h"
#include "server/transport/connections/connection_owner.h"
#include "server/transport/connections/turn_work.h"

namespace pulsegate {

/// The input that is handled at the moment: the buffer that all connections of one shard read into,
/// which of them reads, and how much work its packets have been.
class SharedInput {
public:
    SharedInput(ConnectionOwner& owner, TurnWork& turn)
        : owner_(owner), turn_(turn), buffer_(size) {}

    std::vector<std::uint8_t>& buffer() { return buffer_; }

    /// Until `end`, packets of this connection are handled: it flushes itself, and its work counts.
    void begin(const Connection& connection) {
        reader_ = &connection;
        work_began_at_ = owner_.work();
    }
    /// Returns the work that its packets have been.
    std::uint64_t end() {
        reader_ = nullptr;
        const auto work = owner_.work() - work_began_at_;
        if (work > 0) turn_.add(work);
        return work;
    }
    bool is_of(const Connection& connection) const { return reader_ == &connection; }

    /// Must a packet that may be much work wait: for a later turn, or until other shards have
    /// caught up with what this one has sent them?
    bool must_wait() const {
        return turn_.used_up(owner_.work() - work_began_at_) || owner_.congested();
    }

    /// What follows the packet at hand.
    Bytes rest;

private:
    static constexpr std::size_t size = 64 * 1024;

    ConnectionOwner& owner_;
    TurnWork& turn_;
    std::vector<std::uint8_t> buffer_;
    const Connection* reader_ = nullptr;
    std::uint64_t work_began_at_ = 0;  ///< the owner's work before
};

}  // namespace pulsegate
