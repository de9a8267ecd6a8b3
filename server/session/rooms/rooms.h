#pragma once

#include <boost/container/flat_set.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/hash.h"
#include "server/base/memory/sparse.h"
#include "server/base/owner_thread.h"
#include "server/routing/interest.h"
#include "server/session/durable/journal.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/gateway_totals.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// The members of rooms, as far as this shard is their home. Messages to `room/{room}` reach each
/// member like messages to the inbox: on all devices, without a subscription, and they wait while
/// the member is absent. With `rooms = members`, only members may read or publish there, or below.
/// The backend sets the members, and the store keeps the list.
///
/// A room exists as long as it has members. Its key is its topic. The **watchers** of a user are
/// kept in the same way, with the topic of the user's presence as their key: with `presence-for =
/// watchers`, only they and the user may read it. The shard owns it, and uses it on its thread.
class Rooms {
public:
    /// Members by name, each with the stamp at which the membership began.
    using Members = std::map<std::string, Stamp, std::less<>>;

    Rooms(const BrokerSettings& settings, ShardPlace place, GatewayTotals& totals,
          Interest& interest, const Presence& presence, Journal& journal)
        : settings_(settings),
          place_(place),
          totals_(totals),
          interest_(interest),
          presence_(presence),
          journal_(journal) {}
    ~Rooms();
    Rooms(const Rooms&) = delete;
    Rooms& operator=(const Rooms&) = delete;

    /// The members of a room, or the watchers of a user, by its topic; null if there are none on
    /// this shard.
    const Members* members(std::string_view topic) const;

    /// The users that may get messages of a topic, looked up once for all recipients of a message.
    /// Valid until members change.
    class Audience {
    public:
        /// The users that get a message to a room without a subscription; null for other topics.
        const Members* members() const { return members_; }
        bool is_member(std::string_view user) const { return members_ && members_->contains(user); }
        /// When the user's membership began; null: the user is not a member.
        const Stamp* since(std::string_view user) const;
        /// Like `Rooms::admits`.
        bool admits(std::string_view user) const {
            return !is_closed_ || (readers_ && readers_->contains(user)) || is_own(user);
        }
        /// Is the topic for members or watchers only?
        bool is_closed() const { return is_closed_; }

    private:
        friend class Rooms;
        bool is_own(std::string_view user) const;

        const Members* members_ = nullptr;
        /// Readers of the topic, or of the room or presence that the topic is below.
        const Members* readers_ = nullptr;
        std::string_view presence_{};  ///< the topic, if it is a user's presence
        bool is_closed_ = false;
    };
    Audience audience(std::string_view topic) const;
    /// Is it the topic of a room itself, and not a topic below one?
    static bool is_room(std::string_view topic);

    /// May the user read the topic, or publish to it, as far as rooms and watchers matter?
    bool admits(std::string_view user, std::string_view topic) const;
    /// May the user subscribe to the filter? Any user may use a wildcard in place of the room or
    /// the user: then `admits` decides for each message.
    bool may_subscribe(std::string_view user, std::string_view filter) const;

    bool is_at_home(std::string_view user) const { return place_.is_home_of(user); }
    enum class Change : std::uint8_t { done, nothing, no_room };
    /// `topic` is the topic of a room or of a user's presence, and this shard is the home of
    /// `user`. The result `no_room` means that `max-room-members` is reached.
    Change add(std::string_view topic, std::string_view user);
    Change remove(std::string_view topic, std::string_view user);
    /// Removes up to `most` members, and returns how many were removed.
    std::size_t remove_some(std::string_view topic, std::size_t most);
    /// Restores a member after a restart.
    void restore(const PutMember& stored);

    /// A page of a list, in the order of bytes: up to `most` names after `after`.
    std::vector<std::string> list_members(std::string_view topic, std::string_view after,
                                          std::size_t most) const;
    struct Listed {
        std::string topic;
        std::size_t members;  ///< on this shard
    };
    /// Lists rooms with their numbers of members.
    std::vector<Listed> list(std::string_view after, std::size_t most) const;
    struct Found {
        std::vector<std::string> topics{};
        std::optional<std::string> next{};  ///< the place to continue after; nothing: these were
                                            ///< the last
    };
    /// The rooms of the user, up to `most` after `after`.
    Found rooms_of(std::string_view user, std::string_view after, std::size_t most) const;

    /// Call it once a second.
    void shrink() { shrink_if_sparse(by_user_); }

    // A member's position is a stamp: the member has not received later messages of a room. Stamps
    // of messages from other shards can be compared with it, even if they arrive later.

    /// Notes the position of a user that loses its last device now, or of a device that loses its
    /// connection now.
    Stamp position_now();
    /// The latest position that was noted here. No membership began later.
    Stamp latest_position() const { return latest_position_; }
    /// Notes that this round stores a change of a position.
    void note_position_change() { positions_unit_ = journal_.unit(); }
    /// Is every position in the store, or will it be before later operations?
    bool are_positions_stored() const { return journal_.is_committed(positions_unit_); }

    /// Is the user a member of any room?
    bool has_rooms(std::string_view user) const { return by_user_.contains(user); }
    /// The first device of a user has logged in, or the last one's session has ended.
    void device_came(std::string_view user);
    void last_device_went(std::string_view user);
    /// Restores the position of a user. Call it after a restart, when all members are restored.
    void restore(const PutRoomPosition& stored);
    /// The position of a user without a device, for all rooms.
    Stamp position_of(std::string_view user) const;
    /// Calls `visit(topic, since)` for each room of which the user is a member.
    template <class Visit>
    void visit_rooms_of(std::string_view user, Visit visit) const {
        const auto found = by_user_.find(user);
        if (found == by_user_.end()) return;
        for (const std::string_view topic : found->second.topics)
            visit(topic, members(topic)->find(user)->second);
    }

private:
    struct Room {
        Members members;
        std::optional<Interest::Table> table;  ///< a room's messages are sent to this shard
    };
    using ByTopic = std::map<std::string, Room, std::less<>>;
    /// The rooms of a user.
    struct OfUser {
        boost::container::flat_set<std::string_view> topics{};
        Stamp position = 0;  ///< see PutRoomPosition
    };

    bool claim_membership();
    void enter(std::string_view topic, std::string_view user, Stamp since);
    void put_position(std::string_view user, Stamp position);
    void leave(ByTopic::iterator room, Members::iterator member);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    GatewayTotals& totals_;
    Interest& interest_;
    const Presence& presence_;
    Journal& journal_;
    ByTopic rooms_;
    boost::unordered_flat_map<std::string, OfUser, TextHash, std::equal_to<>> by_user_;
    std::size_t memberships_ = 0;
    Stamp latest_position_ = 0;
    std::uint64_t positions_unit_ = 0;  ///< the journal's unit with the latest position
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
