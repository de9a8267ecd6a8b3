#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "protocol/packet.h"
#include "server/message.h"
#include "server/routing/router.h"
#include "server/session/link.h"
#include "server/session/presence.h"

namespace pulsegate {

/// The QoS 1 messages of one session that are on their way to the client, or wait for a place in
/// its window. Most sessions have none, and then no Outflow either.
struct Outflow {
    struct Sent {
        std::uint16_t packet_id;
        MessageRef message;
    };
    struct Waiting {
        MessageRef message;
        bool retain;
        std::vector<std::uint32_t> identifiers;
    };

    // Not deques: two of them take 1.2 KB before their first element, and most hold one at a time.
    std::vector<Sent> sent;
    std::list<Waiting> waiting;
    std::size_t waiting_bytes = 0;
};

/// A client's state on its home shard (MQTT 5.0, section 4.1). It is the device that presence
/// counts. What happens to it is the Broker's business.
class Session final : public Device {
public:
    Session(User& user, std::string client, WallMillis now)
        : Device(std::move(client), now), user(user) {}

    Millis last_packet() const override { return link->last_packet(); }

    /// The next packet identifier that is not in flight. The window is smaller than their number.
    std::uint16_t next_packet_id();

    User& user;
    Link* link = nullptr;
    SubscriptionList subscriptions;
    std::unique_ptr<Outflow> outflow;
    MessageRef will;

    std::uint32_t max_packet_size = 0;  ///< the client's; 0: no limit
    std::uint16_t receive_maximum = 0;  ///< QoS 1 messages in flight at once
    std::uint16_t last_packet_id = 0;
    Version version = Version::v3_1_1;
    bool catching_up = false;  ///< has a CatchUp in the broker
};

static_assert(sizeof(Session) <= 160);

}  // namespace pulsegate
