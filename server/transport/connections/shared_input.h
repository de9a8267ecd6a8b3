#pragma once

#include <cstdint>
#include <vector>

#include "protocol/bytes.h"
#include "server/transport/connections/connection_owner.h"
#include "server/transport/connections/turn_work.h"

namespace pulsegate {

/// The input that is being handled: the buffer that all connections of one shard read into, the
/// connection that reads, and the work that its packets caused.
class SharedInput {
public:
    SharedInput(ConnectionOwner& owner, TurnWork& turn)
        : owner_(owner), turn_(turn), buffer_(size) {}

    std::vector<std::uint8_t>& buffer() { return buffer_; }

    /// Until `end`, packets of this connection are handled. It flushes itself, and its work is
    /// counted.
    void begin(const Connection& connection) {
        reader_ = &connection;
        work_began_at_ = owner_.work();
    }
    /// Returns the work that its packets caused.
    std::uint64_t end() {
        reader_ = nullptr;
        const auto work = owner_.work() - work_began_at_;
        if (work > 0) turn_.add(work);
        return work;
    }
    bool is_of(const Connection& connection) const { return reader_ == &connection; }

    /// Must a packet that may cause much work wait for a later round, or until other shards have
    /// caught up with this shard's messages?
    bool must_wait() const {
        return turn_.used_up(owner_.work() - work_began_at_) || owner_.congested();
    }

    /// The bytes after the current packet.
    Bytes rest;

private:
    static constexpr std::size_t size = 64 * 1024;

    ConnectionOwner& owner_;
    TurnWork& turn_;
    std::vector<std::uint8_t> buffer_;
    const Connection* reader_ = nullptr;
    std::uint64_t work_began_at_ = 0;  ///< the owner's work before `begin`
};

}  // namespace pulsegate
