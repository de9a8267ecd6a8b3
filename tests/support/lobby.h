#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/session/terms/homes.h"
#include "tests/support/durable_cluster.h"

namespace pulsegate {

inline std::string user_at(unsigned shard, unsigned shards, std::string name) {
    while (Homes(shards).shard_of(name) != shard) name += '.';
    return name;
}

/// A room with members on two shards: `away` and `other` have sessions, on different shards,
/// `stranger` was never here, and `sender` keeps none.
struct Lobby {
    explicit Lobby(const BrokerSettings& settings = {}) : brokers(2, settings) {
        for (const std::string& name : {away_name, other_name, stranger_name, sender_name})
            join(name);
        sender.connect(true);
        away.connect(false);
        other.connect(false);
        brokers.settle();
        forget_all();
    }

    void join(const std::string& name) {
        brokers->broker(Homes(brokers->shards()).shard_of(name))
            .admin()
            .rooms()
            .add("room/r", name);
    }
    void leave(const std::string& name) {
        brokers->broker(Homes(brokers->shards()).shard_of(name))
            .admin()
            .rooms()
            .remove("room/r", name);
    }
    void part() {
        away.lose_connection();
        other.lose_connection();
        brokers.settle();
    }
    /// At QoS 1; the sender, which is a member, gets it too.
    void say(const std::string& text) {
        sender.send("32 r s'room/r' k" + std::to_string(++said) + " '" + text + "'");
        brokers.settle();
        sender.send("40 02 k" + std::to_string(said));
        brokers.settle();
    }
    /// The texts that `client` gets when it comes back to its session.
    std::vector<std::string> return_of(PlainClient& client) {
        client.connect(false);
        brokers.settle();
        std::vector<std::string> texts;
        for (const auto& each : client.take_messages()) texts.push_back(each.text);
        return texts;
    }
    void forget_all() {
        for (PlainClient* each : {&sender, &away, &other}) each->take();
    }
    std::size_t logs() {
        std::size_t sum = 0;
        for (unsigned shard = 0; shard < brokers->shards(); ++shard)
            sum += brokers->broker(shard).admin().room_logs().size();
        return sum;
    }
    void tick() {
        brokers->now += 1000;
        for (unsigned shard = 0; shard < brokers->shards(); ++shard)
            while (brokers->broker(shard).tick(brokers->now)) {
            }
        brokers.settle();
    }

    const std::string away_name = user_at(0, 2, "away");
    const std::string other_name = user_at(1, 2, "other");
    const std::string stranger_name = user_at(1, 2, "stranger");
    const std::string sender_name = user_at(0, 2, "sender");
    DurableCluster brokers;
    PlainClient sender{brokers, sender_name};
    PlainClient away{brokers, away_name};
    PlainClient other{brokers, other_name};
    int said = 0;
};

}  // namespace pulsegate
