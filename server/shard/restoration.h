#pragma once

#include <functional>
#include <vector>

#include "server/base/clock.h"
#include "server/session/broker.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

/// What logins must be refused for.
struct KeptOut {
    std::vector<PutBan> bans{};
    std::vector<PutRevocation> revocations{};
};

struct Restored {
    Ledger::Start start;
    KeptOut kept_out;
};

/// Gives each shard's broker what the ledger has stored of it. Before the shards run, and before
/// anything else is asked of the ledger. `clock` tells the shards' time. Throws std::runtime_error
/// if the store can't be read.
Restored restore(Ledger& ledger, const std::vector<Broker*>& brokers,
                 const std::function<Millis()>& clock);

}  // namespace pulsegate
