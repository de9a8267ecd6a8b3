#pragma once

#include <chrono>

#include "server/base/files/unique_fd.h"
#include "server/handover/channel.h"
#include "server/handover/gateway_pieces.h"

namespace pulsegate {

/// Has all parts of a serving gateway stand still, so that another process can go on with what they
/// have: nothing is read, accepted, sent or stored, and nothing is under way. They go on when this
/// object ends, as if nothing had been.
class Standstill {
public:
    /// Returns when all stand still. Throws HandoverError if that takes too long, or if the store
    /// is in trouble; then they go on.
    Standstill(const GatewayPieces& gateway, HandoverChannel::Deadline deadline);
    ~Standstill();
    Standstill(const Standstill&) = delete;
    Standstill& operator=(const Standstill&) = delete;

    /// Closes the store in order. Returns its folder's lock for the process that goes on with it.
    /// Throws HandoverError.
    int close_store();

    std::chrono::steady_clock::time_point since() const { return since_; }

private:
    void freeze(HandoverChannel::Deadline deadline);
    void go_on();

    const GatewayPieces& gateway_;
    const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    UniqueFd lock_{};
    bool is_closed_ = false;
};

}  // namespace pulsegate
