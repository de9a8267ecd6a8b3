#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/store/ledger/unit.h"
#include "server/store/tables/cursor.h"
#include "server/store/tables/stamp_set.h"

namespace pulsegate {

/// Which owners wait for which committed messages. It takes 32 bytes for each owner and 8 for each
/// message, and another 8 for each owner and message if the owner waits for more than one. It finds
/// messages that nobody waits for any more. It knows no database.
///
/// An owner may never finish its oldest message. Exceptions of its cursor are remembered only while
/// their messages exist.
class WaitingIndex {
public:
    void reserve(std::size_t owners) { owners_.reserve(owners); }
    /// An existing owner is not changed.
    void add_owner(OwnerId owner, Cursor cursor = {});
    void end_owner(OwnerId owner);

    bool is_owner(OwnerId owner) const { return owners_.contains(owner); }
    /// Does the owner exist, and is it not done with the message?
    bool is_due(OwnerId owner, Stamp stamp) const;
    /// Nothing if there is no such owner.
    std::optional<Cursor> cursor(OwnerId owner) const;
    void set_cursor(OwnerId owner, Cursor cursor);

    /// The latest message that any owner was done with.
    Stamp latest_done() const { return latest_done_; }

    /// Receivers that are not owners don't count. `set_cursor` later sets what the owners are done
    /// with.
    void add_message(Stamp stamp, const std::vector<Receiver>& receivers);

    bool is_waited_for(Stamp stamp) const { return awaited_.contains(stamp); }

    /// Messages to delete. A message that has new receivers since then is not deleted.
    const std::vector<Stamp>& dead() const { return dead_; }
    /// The first `count` messages are deleted.
    void forget_dead(std::size_t count);

    /// The number of owners and messages that its tables have room for.
    std::size_t room() const;

private:
    struct Owner {
        Stamp upto = 0;  ///< of its cursor
        StampSet waiting{};
    };
    static constexpr std::size_t least_room = 64;
    struct Exceptions {
        std::vector<Stamp> stamps{};
        std::size_t room = least_room;  ///< beyond this size, stamps of deleted messages are
                                        ///< removed
    };

    const std::vector<Stamp>& exceptions(OwnerId owner) const;
    void set_exceptions(OwnerId owner, std::vector<Stamp> stamps);
    void release_done(StampSet& waiting, const Cursor& cursor);
    void forget_deleted(OwnerId owner);
    void add_dead(Stamp stamp);
    void note_done(const Cursor& cursor);
    void await(Stamp stamp, std::uint32_t owners);
    void release(Stamp stamp);
    void give_room_back();

    boost::unordered_flat_map<OwnerId, Owner> owners_;
    boost::unordered_flat_map<OwnerId, Exceptions> exceptions_;  ///< of cursors; few have any
    boost::unordered_flat_set<Stamp> awaited_;
    /// For messages that several owners wait for: the number of further owners.
    boost::unordered_flat_map<Stamp, std::uint32_t> further_;
    std::vector<Stamp> dead_;
    boost::unordered_flat_set<Stamp> undeleted_;  ///< the messages in `dead_`
    Stamp latest_done_ = 0;
};

}  // namespace pulsegate
