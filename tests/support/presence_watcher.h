#pragma once

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "server/session/terms/homes.h"
#include "tests/support/durable_cluster.h"

namespace pulsegate {

/// What was said of a user last.
struct ShownState {
    bool online;
    std::uint64_t version;
};

/// A watcher that keeps the latest presence of each user.
class Watcher {
public:
    Watcher(DurableCluster& brokers, const std::string& name, std::string filter)
        : client_(brokers, name), filter_(std::move(filter)) {}

    void subscribe() {
        client_.connect(false);
        client_.send("82 r k1 s'" + filter_ + "' 01");
    }
    void come_back() { client_.connect(false); }

    /// Reads what was sent; no version may be lower than one before.
    void read() {
        for (const PlainClient::Message& message : client_.take_messages()) {
            const auto presence = boost::json::parse(message.text).as_object();
            if (message.qos == QoS::at_least_once)
                client_.send("40 r2 k" + std::to_string(message.packet_id));
            note(std::string(presence.at("user").as_string()),
                 {presence.at("state") == "online",
                  presence.at("version").to_number<std::uint64_t>()});
        }
    }
    const std::map<std::string, ShownState>& known() const { return known_; }

private:
    void note(const std::string& user, ShownState state) {
        const auto [known, is_new] = known_.emplace(user, state);
        CAPTURE(user);
        CHECK(state.version >= known->second.version);
        if (state.version == known->second.version) CHECK(state.online == known->second.online);
        known->second = state;
    }

    PlainClient client_;
    const std::string filter_;
    std::map<std::string, ShownState> known_;
};

inline const User* known(DurableCluster& brokers, const std::string& user) {
    return brokers->broker(Homes(brokers->shards()).shard_of(user)).admin().presence().find(user);
}

inline constexpr Millis limit = 90'000;  ///< of a keepalive of 60 s

inline void tick(DurableCluster& brokers) {
    for (unsigned shard = 0; shard < brokers->shards(); ++shard)
        while (brokers->broker(shard).tick(brokers->now)) brokers.settle();
    brokers.settle();
}
inline void pass_time(DurableCluster& brokers, Millis time) {
    brokers->now += time;
    tick(brokers);
}

}  // namespace pulsegate
