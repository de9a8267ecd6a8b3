#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/handover/terms.h"

namespace pulsegate {

class Admin;
class DataStore;
class LineWriter;
class Shard;
class Webhook;

/// The parts that an upgrade stops, passes on, and starts again. It owns none of them.
struct GatewayPieces {
    std::vector<Shard*> shards;
    Admin& admin;
    DataStore& store;
    Webhook* webhook;    ///< null: there is none
    LineWriter* events;  ///< null if there is no file of events
    /// The listening sockets, each with its URL in the settings.
    std::vector<std::pair<std::string, int>> sockets;
    /// The promises that its clients may rely on.
    Promises promises;
    /// Returns a GatewayRecord as bytes. Call it when all parts stand still. The bytes contain
    /// secrets.
    std::function<std::string()> describe;
};

}  // namespace pulsegate
