#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/hash.h"
#include "server/base/owner_thread.h"
#include "server/routing/router.h"
#include "server/session/durable/shard_messages.h"

namespace pulsegate {

/// The shared subscriptions (MQTT 5.0, 4.8.2) that have this shard as their home: the members of
/// each, and the member that is next. The members' sessions may be on any shard; here they are ids.
/// It belongs to the shard's thread.
class ShareGroups {
public:
    struct Choice {
        std::shared_ptr<const std::string> share;
        SessionId member;
        bool connected;
        SubscribeOptions options;
        std::uint32_t identifier;
        OwnerId owner;  ///< owner in the store, or 0
    };

    explicit ShareGroups(Interest& interest) : router_(interest) {}

    void apply(const GroupMembership& membership);

    /// Chooses the member to receive the next message. Connected members take turns. If none is
    /// connected, the disconnected members take turns. Nothing if the group has no members.
    std::optional<Choice> choose(std::string_view share);
    /// Is any member connected?
    bool has_connected(std::string_view share) const;

    /// Calls `visit(const Choice&)` once for each group with a filter that matches the topic.
    template <class Visitor>
    void match(const HashedText& topic, Visitor visit) {
        router_.match(topic, nullptr, [&](const Match& match) {
            visit(choose(static_cast<Group&>(*match.subscriber)));
        });
    }

    std::size_t groups() const { return groups_.size(); }
    std::uint64_t work() const { return router_.work(); }

private:
    struct Member {
        SessionId session;
        SubscribeOptions options;
        std::uint32_t identifier;
        OwnerId owner;
    };
    struct Group : Subscriber {
        void swap(std::size_t a, std::size_t b);
        void set_connected(std::size_t place, bool is_connected);
        void remove(std::size_t place);

        std::shared_ptr<const std::string> share;
        SubscriptionList subscription;
        std::vector<Member> members;  ///< never empty; the connected ones come first
        boost::unordered_flat_map<SessionId, std::size_t> places;
        std::size_t connected = 0;
        std::size_t next = 0;
    };

    static Choice choose(Group& group);
    Group& find_or_create(const std::string& share);

    Router router_;
    boost::unordered_flat_map<std::string, std::unique_ptr<Group>, TextHash, std::equal_to<>>
        groups_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
