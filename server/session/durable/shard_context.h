#pragma once

#include "server/session/terms/shard_place.h"

namespace pulsegate {

class BrokerHost;
class History;
struct BrokerSettings;
struct Counters;
class Journal;
class Receipts;
class Tracer;

/// The objects that all parts of a shard's sessions use. It owns none of them.
struct ShardContext {
    const BrokerSettings& settings;
    ShardPlace place;
    BrokerHost& host;
    Counters& counters;
    Tracer& tracer;
    History& history;
    Receipts& receipts;
    Journal& journal;
};

}  // namespace pulsegate
