#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pulsegate {

class Admin;
class DataStore;
class LineWriter;
class Shard;
class Webhook;

/// What an upgrade stops, passes on, and starts again. It owns none of it.
struct GatewayPieces {
    std::vector<Shard*> shards;
    Admin& admin;
    DataStore& store;
    Webhook* webhook;    ///< null: there is none
    LineWriter* events;  ///< null if there is no file of events
    /// Those that listen, each with the URL by which it was asked for.
    std::vector<std::pair<std::string, int>> sockets;
    /// Returns a GatewayRecord as bytes, when all stand still. They hold secrets.
    std::function<std::string()> describe;
};

}  // namespace pulsegate
