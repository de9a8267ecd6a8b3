#pragma once

#include <cstdint>

#include "server/session/terms/sender_shares.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The data of a queued message that has its body only in the store.
struct QueuedHead {
    Stamp stamp;
    SenderShares::Sender sender = 0;
    std::uint32_t cost : 28;  ///< approximate bytes in memory, with its body
    bool is_exactly_once : 1;
    bool retain : 1;
    bool is_stored : 1;
    bool perhaps_sent : 1 = false;  ///< it may have been sent to its client before a crash
};

}  // namespace pulsegate
