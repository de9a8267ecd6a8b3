#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "server/base/gateway_sum.h"
#include "server/routing/retained_seats.h"
#include "server/session/users/inbox_accounts.h"

namespace pulsegate {

/// The totals for the limits of the whole gateway, which all shards update. Any thread may use it.
struct GatewayTotals {
    InboxAccounts inboxes{};
    const std::shared_ptr<RetainedSeats> retained = std::make_shared<RetainedSeats>();
    std::atomic<std::size_t> room_members{0};  ///< memberships, and watchers
    std::atomic<std::size_t> disconnected{0};  ///< sessions
    std::atomic<std::size_t> disconnected_bytes{0};
    GatewaySum queued{};         ///< bytes of queued messages in memory
    GatewaySum queue_entries{};  ///< bytes of the queues without any body
    GatewaySum wills{};          ///< bytes
};

}  // namespace pulsegate
