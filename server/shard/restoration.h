#pragma once

#include <functional>
#include <vector>

#include "server/base/clock.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

class Restore;

/// The bans and revocations for which logins are refused.
struct KeptOut {
    std::vector<PutBan> bans{};
    std::vector<PutRevocation> revocations{};
};

struct Restored {
    Ledger::Start start;
    KeptOut kept_out;
    /// Must be stored before the shards store anything, see `store_restored`. Until then the start
    /// may still be abandoned.
    std::vector<Operation> divided;
    std::vector<Operation> expired;  ///< stored too, if the store accepts it
};

/// Gives each shard its stored data, and stores nothing. Call it before the shards run and before
/// any other use of the ledger. `clock` tells the shards' time. Throws std::runtime_error if the
/// store can't be read.
Restored restore(Ledger& ledger, const std::vector<Restore*>& shards,
                 const std::function<Millis()>& clock);

/// Stores the changes of the restoration: messages that wait in rooms, divided for another number
/// of shards, and expired data. Throws std::runtime_error if the store refuses them.
void store_restored(Ledger& ledger, Restored& restored);

}  // namespace pulsegate
