#pragma once

#include <cstdint>

#include "server/session/terms/sender_shares.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// What is known of a message in a queue whose body is only in the store.
struct QueuedHead {
    Stamp stamp;
    SenderShares::Sender sender = 0;
    std::uint32_t cost : 28;  ///< bytes in memory with its body, about
    bool is_exactly_once : 1;
    bool retain : 1;
    bool is_stored : 1;
    bool perhaps_sent : 1 = false;  ///< to its client before a crash: nobody knows
};

}  // namespace pulsegate
