#pragma once

#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/message/message.h"
#include "server/session/terms/cause.h"
#include "server/session/users/presence_entry.h"
#include "server/session/users/user_names.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The result of a visitor for a user.
enum class Visited : std::uint8_t {
    done,        ///< the visit goes on with the next user
    enough,      ///< the visit ends; the next visit begins with the next user
    unfinished,  ///< the visit ends; the next visit begins with this user again
};

/// One presence change, as a copy that other threads may hold.
struct PresenceChange {
    WallMillis time;
    std::string user;
    bool online;
    Cause cause;
    std::uint64_t version;
    std::string client;
    Millis silent;  ///< ms since the client's last packet
};

/// `PresenceChange` as one JSON line without its line break; long names are cut.
std::string to_json(const PresenceChange& change);

/// The users with this shard as their home, and which of them are online. It owns the users, and
/// knows devices but no connections; it belongs to the shard's thread and has no clock. A user may
/// be packed: a look-up by name unpacks the user.
///
/// A user's version grows with every change, and follows the wall clock's milliseconds up to the
/// stored floor. So it keeps growing after the user was forgotten, and after a restart. After a
/// crash, all versions begin above every version that anybody was told.
class Presence {
public:
    /// `most_known`: if there are more users, some are forgotten early.
    explicit Presence(std::size_t most_known = 1'000'000) : most_known_(most_known) {}
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

    /// `unpack` replaces a packed entry with a user.
    using Unpack = std::function<User&(PresenceEntry&)>;
    void unpack_by(Unpack unpack) { unpack_ = std::move(unpack); }
    User& unpacked(PresenceEntry& entry) const {
        return entry.is_packed ? unpack_(entry) : static_cast<User&>(entry);
    }
    /// Replaces an unpacked user with a packed one, or the reverse. The new entry gets the
    /// presence data of the old one. It owns the new entry, and gives the old one back.
    void replace(PresenceEntry& old, PresenceEntry& replacement);

    void reserve(std::size_t users) { by_name_.reserve(users); }
    /// Call it once a second.
    void shrink() { by_name_.shrink(); }
    /// The user of that name, or null.
    User* find(std::string_view name) const;
    User& find_or_create(std::string_view name);
    bool has(std::string_view name) const { return by_name_.find(name) != nullptr; }

    /// Versions begin above this one: before the restart, no version was larger, except in users'
    /// rows.
    void begin_versions_at(std::uint64_t floor) { version_floor_ = floor; }
    /// Restores a user from before the restart. If the user was online, the user is still online,
    /// and awaited until that tick. When all users are restored, they are in the order of their
    /// changes again.
    void restore(const PutUser& stored, Tick awaited_until);
    /// The same when only the name is known. Call it before all users are restored. There must be
    /// no other entry with this name.
    User& restore(std::string_view name);
    void restore(PresenceEntry& entry);
    void finish_restoring();

    /// All awaited users are awaited for that much longer.
    void postpone(Tick ticks) { postponed_ += ticks; }

    /// A device has logged in. Returns true if this makes the user online; an awaited user was
    /// online before.
    bool arrive(User& user, Device& device, WallMillis now);

    /// Another connection has taken the device over; the user stays online.
    void taken_over(User& user, Device& device, WallMillis now);

    /// A device has disconnected; it stays on the user's list. Returns true if this makes the user
    /// offline. `last_seen` is the time of its last packet.
    bool depart(User& user, Device& device, Cause cause, WallMillis now, WallMillis last_seen);

    /// The gateway has asked the device to leave: it disconnects as above, but if it was the user's
    /// last one, the user stays online and is awaited until that tick. Then it returns true.
    bool leave(User& user, Device& device, WallMillis now, WallMillis last_seen, Tick until);

    /// Users that were awaited until `upto` or before, and are not back, are offline with this
    /// cause. Examines up to `most` awaited users, and calls `lost` for each user that is offline
    /// now, with the ms since the last packet; the user is shown as in `show`. Returns true if
    /// there are more.
    [[nodiscard]] bool end_awaited(Tick upto, std::size_t most, Cause cause, WallMillis now,
                                   const std::function<void(const User&, Millis)>& lost);

    /// Shows the user with that name, if there is one, without unpacking the user. For a packed
    /// user, it shows a copy without devices.
    void show(std::string_view name, const std::function<void(User&)>& visitor) const;

    /// Visits up to `most` users after `after`, in the order of their last change, until the
    /// visitor returns false. Returns the position to continue after; nothing at the end. A user
    /// that changes between two calls moves to the end, and is visited there. Users are shown as in
    /// `show`; the visitor must not look up users by name.
    std::optional<PresencePosition> visit(PresencePosition after, std::size_t most,
                                          const std::function<bool(User&)>&) const;
    /// The same, but shows packed entries as they are. The visitor may replace the entry that it
    /// is shown. It may also forget it, but then must not return `unfinished`.
    std::optional<PresencePosition> visit_entries(
        PresencePosition after, std::size_t most,
        const std::function<Visited(PresenceEntry&)>& visitor) const;
    /// The position of the last user.
    PresencePosition latest() const {
        return by_change_.empty() ? PresencePosition{} : by_change_.rbegin()->position();
    }

    /// Examines the next sixtieth of all users and forgets those that have been offline for longer
    /// than `kept`. If very many users are known, because clients invent names, users who were
    /// never online for a minute are forgotten after a minute. `forgotten` is called for each.
    void forget_some(WallMillis now, Millis kept,
                     const std::function<void(const User&)>& forgotten = {});

    /// Forgets the user with that name at once. Returns false if there is none, or if the user has
    /// a session or is online.
    bool forget_now(std::string_view name);

    std::size_t users() const { return by_name_.size(); }
    std::size_t name_bytes() const { return name_bytes_; }
    std::size_t online() const { return online_; }

private:
    static void to_front(User& user, Device& device);
    static bool to_back(User& user, Device& device);
    void await(const PresenceEntry& user, Tick until);
    void insert_by_change(PresenceEntry& user);
    void change(PresenceEntry& user, Cause cause, WallMillis now);
    PresenceEntry* at(PresencePosition position);
    void forget(User& user);

    const std::size_t most_known_;
    Unpack unpack_;
    UserNames by_name_;
    boost::intrusive::set<PresenceEntry> by_change_;  ///< owns the entries; the latest change comes
                                                      ///< last
    std::size_t online_ = 0;
    std::size_t name_bytes_ = 0;
    PresencePosition sweep_;
    /// A user who was online when the process died, or when the gateway asked the last device to
    /// leave, and who has neither logged in nor left since.
    struct Awaited {
        std::int64_t until;  ///< in ticks, without those by which `postpone` has moved it since
        PresencePosition user;

        bool operator<(const Awaited& other) const { return until > other.until; }
    };
    std::priority_queue<Awaited>
        awaited_;                 ///< the earliest on top; users that are back may still be in it
    std::int64_t postponed_ = 0;  ///< ticks
    /// The version of the user that was created last. Until such a user logs in, its version is
    /// below all others. Each has another version, because names that share a version are compared
    /// by their hash.
    std::uint64_t created_ = 0;
    std::uint64_t version_floor_ = 0;  ///< no forgotten user had a greater version
    [[no_unique_address]] OwnerThread thread_;
};

/// The least version of a change at this time.
std::uint64_t version_by_clock(WallMillis now);

/// A user's presence for the store.
PutUser stored_presence(const User& user);

/// A user's presence as JSON, for the HTTP API and for `presence/{user}`.
std::string to_json(const User& user, Millis now, WallMillis wall);

/// The user's presence as the retained message to `presence/{user}`; null if nobody must know about
/// it yet, or if the name is too long for a topic.
MessageRef presence_message(const User& user, Millis now, WallMillis wall);

}  // namespace pulsegate
