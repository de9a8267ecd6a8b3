#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/packet.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Subscriptions of SUBSCRIBE packets that the store has not accepted yet, and the earlier
/// subscription of each filter. If the store refuses a packet, its filters get their earlier
/// subscriptions back, unless a later packet has changed them. It belongs to the shard's thread.
class UnstoredSubscriptions {
public:
    struct Terms {
        SubscribeOptions options{};
        std::uint32_t identifier = 0;
    };
    /// The subscription that a filter had; nothing if it had none.
    using Former = std::optional<Terms>;

    /// The subscriptions of one SUBSCRIBE.
    struct Packet {
        OwnerId owner = 0;
        std::uint64_t number = 0;
        std::vector<std::string> filters{};
    };

    /// The memory of a packet until it is settled.
    static std::size_t cost_of(const Packet& packet);

    Packet begin(OwnerId owner) { return {.owner = owner, .number = ++last_}; }
    void add(Packet& packet, std::string_view filter, const Former& former);
    /// The subscription ends. Even if a packet is refused later, it does not come back.
    void forget(OwnerId owner, std::string_view filter) {
        if (!changes_.empty()) changes_.erase({owner, std::string(filter)});
    }

    /// The packet is stored, or its client is gone and got no answer.
    void keep(const Packet& packet);
    /// The store has refused the packet. Calls `restore` for each filter that gets its earlier
    /// subscription back.
    using Restore = std::function<void(const std::string& filter, const Former& former)>;
    void undo(const Packet& packet, const Restore& restore);

private:
    struct Change {
        std::uint64_t packet;
        Former former;
    };
    using Changes = std::map<std::pair<OwnerId, std::string>, std::deque<Change>>;

    struct Place {
        Changes::iterator filter;
        std::deque<Change>::iterator change;
    };

    std::optional<Place> find(const Packet& packet, const std::string& filter);
    void remove(const Place& place);

    Changes changes_;  ///< of each filter in the order of packets
    std::uint64_t last_ = 0;
};

}  // namespace pulsegate
