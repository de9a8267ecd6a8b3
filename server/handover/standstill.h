#pragma once

#include <chrono>

#include "server/base/files/unique_fd.h"
#include "server/handover/channel.h"
#include "server/handover/gateway_pieces.h"
#include "server/start/service_manager.h"

namespace pulsegate {

/// Stops all parts of a serving gateway, so that another process can continue with their state:
/// nothing is read, accepted, sent or stored, and no operation is in progress. When this object
/// ends, the parts continue as if nothing had happened.
class Standstill {
public:
    /// Returns when all parts have stopped. Throws HandoverError if that takes too long, or if the
    /// store is in trouble; then the parts continue.
    Standstill(const GatewayPieces& gateway, HandoverChannel::Deadline deadline);
    ~Standstill();
    Standstill(const Standstill&) = delete;
    Standstill& operator=(const Standstill&) = delete;

    /// Closes the store in order. Returns the folder's lock for the process that continues with it.
    /// Throws HandoverError.
    int close_store();

    std::chrono::steady_clock::time_point since() const { return since_; }

private:
    void freeze(HandoverChannel::Deadline deadline);
    void go_on();

    const GatewayPieces& gateway_;
    const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    const service::KeptAlive kept_alive_;
    UniqueFd lock_{};
    bool is_closed_ = false;
};

}  // namespace pulsegate
