#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/store/unit.h"

namespace pulsegate {

/// What an owner has done of the messages that were stored for it: all up to a stamp, and some
/// beyond.
struct Cursor {
    Stamp upto = 0;
    std::vector<Stamp> beyond{};  ///< ascending

    bool has_done(Stamp stamp) const;
    void add(const Done& done);

    /// The owner gets a message that is older than `upto`. Of those between only `done` are done.
    void reopen(Stamp stamp, const std::vector<Stamp>& done);

    bool operator==(const Cursor&) const = default;
};

/// Which owner waits for which messages, of what is committed: 8 bytes for each owner and message,
/// 16 for each message. It says which messages nobody waits for any more. It knows no database.
class WaitingIndex {
public:
    void reserve(std::size_t owners) { owners_.reserve(owners); }
    /// One that was there before stays as it is.
    void add_owner(OwnerId owner, Cursor cursor = {});
    void end_owner(OwnerId owner);

    /// Null if there is no such owner.
    const Cursor* cursor(OwnerId owner) const;
    void set_cursor(OwnerId owner, Cursor cursor);

    /// The largest `upto` of all cursors.
    Stamp done_upto() const { return done_upto_; }

    /// Receivers that are no owners don't count, nor those who have said that they are done with
    /// just this message.
    void add_message(Stamp stamp, const std::vector<Receiver>& receivers);

    bool is_waited_for(Stamp stamp) const { return references_.contains(stamp); }

    /// Messages to delete. One that has got receivers again since is not.
    const std::vector<Stamp>& dead() const { return dead_; }
    /// The first ones are deleted.
    void forget_dead(std::size_t count);

private:
    struct Queue {
        Cursor cursor;
        std::vector<Stamp> waiting{};  ///< ascending
    };

    void release(Stamp stamp);

    boost::unordered_flat_map<OwnerId, Queue> owners_;
    boost::unordered_flat_map<Stamp, std::uint32_t> references_;
    std::vector<Stamp> dead_;
    Stamp done_upto_ = 0;
};

}  // namespace pulsegate
