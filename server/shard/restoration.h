#pragma once

#include <functional>
#include <vector>

#include "server/base/clock.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

class Restore;

/// What logins must be refused for.
struct KeptOut {
    std::vector<PutBan> bans{};
    std::vector<PutRevocation> revocations{};
};

struct Restored {
    Ledger::Start start;
    KeptOut kept_out;
    /// What the store must have before the shards store anything: see `store`. The start may still
    /// be given up without it.
    std::vector<Operation> divided;
    std::vector<Operation> expired;  ///< as well, if it takes it
};

/// Gives each shard what the ledger has stored of it, and stores nothing. Before the
/// shards run, and before anything else is asked of the ledger. `clock` tells the shards' time.
/// Throws std::runtime_error if the store can't be read.
Restored restore(Ledger& ledger, const std::vector<Restore*>& shards,
                 const std::function<Millis()>& clock);

/// Stores what the restoration has changed: what waits in rooms, for another number of shards, and
/// what has expired. Throws std::runtime_error if the store does not take it.
void store_restored(Ledger& ledger, Restored& restored);

}  // namespace pulsegate
