#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "loadgen/client/outflow.h"
#include "loadgen/client/unreleased.h"

namespace pulsegate::load {

/// The state that a client has only while messages or a SUBSCRIBE are in progress.
struct ClientSession {
    struct Subscription {
        std::uint16_t packet_id;
        std::uint16_t filters;
        std::uint32_t first;  ///< how many filters the earlier ones without a SUBACK had
    };

    bool empty() const { return outflow.empty() && unreleased.empty() && subscriptions.empty(); }

    /// Bytes that it holds while it is empty.
    std::size_t memory() const {
        return outflow.memory() + unreleased.memory() +
               subscriptions.capacity() * sizeof(Subscription);
    }

    Outflow outflow;
    Unreleased unreleased;
    std::vector<Subscription> subscriptions;  // subscriptions without a SUBACK so far
};

/// Keeps empty sessions, with the memory that they have allocated, for reuse: at QoS 1 and 2 each
/// message needs a session, but few are needed at the same time.
class SpareSessions {
public:
    std::unique_ptr<ClientSession> take() {
        if (spare_.empty()) return std::make_unique<ClientSession>();
        auto session = std::move(spare_.back());
        spare_.pop_back();
        return session;
    }
    void give_back(std::unique_ptr<ClientSession> session) {
        if (spare_.size() < most && session->memory() <= most_memory)
            spare_.push_back(std::move(session));
    }

private:
    static constexpr std::size_t most = 64;
    static constexpr std::size_t most_memory = 4096;  // of each

    std::vector<std::unique_ptr<ClientSession>> spare_;
};

}  // namespace pulsegate::load
