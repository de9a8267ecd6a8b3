#pragma once

#include "server/session/terms/shard_place.h"

namespace pulsegate {

class BrokerHost;
struct BrokerSettings;
struct Counters;
class Journal;
class Receipts;

/// What every part of a shard's sessions works with. It owns none of it.
struct ShardContext {
    const BrokerSettings& settings;
    ShardPlace place;
    BrokerHost& host;
    Counters& counters;
    Receipts& receipts;
    Journal& journal;
};

}  // namespace pulsegate
