#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/store/ledger/unit.h"
#include "server/store/tables/stamp_set.h"

namespace pulsegate {

/// What an owner has done of the messages that were stored for it: all up to a stamp, and some
/// beyond.
struct Cursor {
    Stamp upto = 0;
    std::vector<Stamp> beyond{};  ///< ascending

    bool has_done(Stamp stamp) const;
    void add(const Done& done);

    /// The owner gets a message that it is done with, or that is older than `upto`: of those
    /// between only `done` are done.
    void reopen(Stamp stamp, const std::vector<Stamp>& done);

    bool operator==(const Cursor&) const = default;
};

/// Which owner waits for which messages, of what is committed: 32 bytes for each owner and 8 for
/// each message, and 8 for each owner and message if the owner waits for more than one. It says
/// which messages nobody waits for any more. It knows no database.
///
/// An owner may leave its oldest message undone for ever. What it has done beyond that is kept only
/// as long as the messages are, for others: without the message nobody asks.
class WaitingIndex {
public:
    void reserve(std::size_t owners) { owners_.reserve(owners); }
    /// One that was there before stays as it is.
    void add_owner(OwnerId owner, Cursor cursor = {});
    void end_owner(OwnerId owner);

    bool is_owner(OwnerId owner) const { return owners_.contains(owner); }
    /// Is there such an owner, which is not done with the message?
    bool is_due(OwnerId owner, Stamp stamp) const;
    /// Nothing if there is no such owner.
    std::optional<Cursor> cursor(OwnerId owner) const;
    void set_cursor(OwnerId owner, Cursor cursor);

    /// No owner was ever done with a later message.
    Stamp latest_done() const { return latest_done_; }

    /// Receivers that are no owners don't count. What the others are done with, `set_cursor` says
    /// later.
    void add_message(Stamp stamp, const std::vector<Receiver>& receivers);

    bool is_waited_for(Stamp stamp) const { return awaited_.contains(stamp); }

    /// Messages to delete. One that has got receivers again since is not.
    const std::vector<Stamp>& dead() const { return dead_; }
    /// The first ones are deleted.
    void forget_dead(std::size_t count);

    /// How many owners and messages its tables have room for.
    std::size_t room() const;

private:
    struct Owner {
        Stamp upto = 0;  ///< of its cursor
        StampSet waiting{};
    };
    static constexpr std::size_t least_room = 64;
    struct Beyond {
        std::vector<Stamp> stamps{};
        std::size_t room = least_room;  ///< beyond it those of deleted messages are forgotten
    };

    const std::vector<Stamp>& beyond(OwnerId owner) const;
    void set_beyond(OwnerId owner, std::vector<Stamp> stamps);
    void forget_deleted(OwnerId owner);
    void add_dead(Stamp stamp);
    void note_done(const Cursor& cursor);
    void await(Stamp stamp, std::uint32_t owners);
    void release(Stamp stamp);
    void give_room_back();

    boost::unordered_flat_map<OwnerId, Owner> owners_;
    boost::unordered_flat_map<OwnerId, Beyond> beyond_;  ///< of cursors; few have any
    boost::unordered_flat_set<Stamp> awaited_;
    /// How many owners but one wait for a message, of those that several wait for.
    boost::unordered_flat_map<Stamp, std::uint32_t> further_;
    std::vector<Stamp> dead_;
    boost::unordered_flat_set<Stamp> undeleted_;  ///< those in `dead_`
    Stamp latest_done_ = 0;
};

}  // namespace pulsegate
