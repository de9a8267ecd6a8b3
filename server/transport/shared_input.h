#pragma once

#include <cstdint>
#include <vector>

#include "protocol/bytes.h"
#include "server/transport/connection_owner.h"
#include "server/transport/parked_connections.h"

namespace pulsegate {

/// The input that is handled at the moment: the buffer that all connections of one shard read into,
/// which of them reads, and how much work its packets have been.
class SharedInput {
public:
    explicit SharedInput(ConnectionOwner& owner) : owner_(owner), buffer_(size) {}

    std::vector<std::uint8_t>& buffer() { return buffer_; }

    /// Until `end`, packets of this connection are handled: it flushes itself, and its work counts.
    void begin(const Connection& connection) {
        reader_ = &connection;
        work_began_at_ = owner_.work();
    }
    void end() { reader_ = nullptr; }
    bool is_of(const Connection& connection) const { return reader_ == &connection; }

    /// Has the packet at hand been more than enough for one turn?
    bool overworked() const {
        return owner_.work() - work_began_at_ > work_a_turn || owner_.congested();
    }

    /// What follows the packet at hand.
    Bytes rest;

private:
    static constexpr std::size_t size = 64 * 1024;

    ConnectionOwner& owner_;
    std::vector<std::uint8_t> buffer_;
    const Connection* reader_ = nullptr;
    std::uint64_t work_began_at_ = 0;  ///< the owner's work before
};

}  // namespace pulsegate
