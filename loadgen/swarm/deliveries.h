#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "loadgen/swarm/profiles.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/truth/flow_total.h"
#include "loadgen/truth/message.h"
#include "loadgen/truth/received_flow.h"

namespace pulsegate::load {

/// The messages that this worker's clients receive, and at the end the messages that they should
/// have received.
class Deliveries {
public:
    Deliveries(SwarmState& state, const Profiles& profiles);

    void received(SwarmClient& client, const Publish& publish, Time now);
    /// QoS 2: a PUBLISH came again before its PUBREL (`is_same`), or another message came under its
    /// packet identifier.
    void received_again(SwarmClient& client, const Publish& publish, bool is_same, Time now);

    /// A flow to a receiver of this worker, or to a room with a member of this worker.
    void add(FlowTotal total) { totals_.push_back(std::move(total)); }

    void judge(Time now);

private:
    struct Key {
        std::uint32_t receiver;
        std::uint32_t sender;
        std::uint32_t slot;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };

    /// Nothing if it is no message of this run.
    std::optional<Message> message_in(const Publish& publish) const;
    /// Nothing while the SUBACK is still to come.
    std::optional<QoS> granted(const SwarmClient& client, const Roster::Contact& contact) const;
    bool belongs(const SwarmClient& client, const Message& message) const;
    void misdirected(const SwarmClient& client, const Message& message, Time now);
    void damaged(const SwarmClient& client, const Publish& publish, Time now);
    void check_header(const SwarmClient& client, const Message& message, const Publish& publish,
                      Time now);
    void check_property(const SwarmClient& client, const Message& message,
                        const PropertyValue& property, Time now);
    void check_first(const SwarmClient& client, const Message& message, const Publish& publish,
                     Time now);
    void check_delay(const SwarmClient& client, const Message& message, Time now);
    void count_unreleased(Time now);
    void judge(SwarmClient& receiver, const Roster::Contact& contact, const FlowTotal& total,
               Time now);

    SwarmState& state_;
    const Profiles& profiles_;
    std::vector<std::vector<SwarmClient*>> members_;  ///< of this worker, by room
    boost::unordered_flat_map<Key, ReceivedFlow, KeyHash> flows_;
    std::vector<FlowTotal> totals_;
};

}  // namespace pulsegate::load
