#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/owner_thread.h"
#include "server/base/sparse.h"
#include "server/message/message.h"
#include "server/session/terms/cause.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

struct User;

/// A client of a user: connected, or disconnected with a session. It unlinks itself from the user's
/// list when it is destroyed.
class Device : public boost::intrusive::list_base_hook<
                   boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    Device(std::string client, WallMillis since) : client(std::move(client)), since(since) {}
    virtual ~Device() = default;

    /// Is it what waits for the user's first device, see Inboxes? Clients have an id.
    bool is_inbox() const { return client.empty(); }

    /// When the last complete packet of a connected client was received.
    virtual Millis last_packet() const = 0;
    /// The silence, in ms, after which a connected client has timed out.
    virtual Millis limit() const = 0;

    const std::string client;
    WallMillis since;   ///< when its present connection logged in
    bool here = false;  ///< connected
};

/// A place in the order of the users' last changes, that of a user or between two.
struct PresencePosition {
    std::uint64_t version = 0;
    std::uint64_t user = 0;  ///< a hash of its name: many may have changed in one millisecond

    bool operator<(const PresencePosition& other) const {
        return version < other.version || (version == other.version && user < other.user);
    }
};

/// What presence knows of a user. Of a user with a packed session (a DormantRecord) it is all there
/// is.
struct PresenceEntry : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
    explicit PresenceEntry(bool is_dormant) : is_dormant(is_dormant) {}
    PresenceEntry(const PresenceEntry&) = delete;
    PresenceEntry& operator=(const PresenceEntry&) = delete;

    std::string_view user_name() const;
    PresencePosition position() const;
    /// In the order of their last changes.
    bool operator<(const PresenceEntry& other) const;

    /// Time of the last packet, while offline.
    WallMillis last_seen() const { return since + seen_after; }
    /// The present state began then; no farther from the last packet than 24 days.
    void set_since(WallMillis now, WallMillis seen);
    /// Tells the same of the user as the other one.
    void copy_presence(const PresenceEntry& other);

    std::uint64_t version = 0;
    WallMillis since = 0;             ///< when the present state began
    std::int32_t seen_after = 0;      ///< ms from `since` to the last packet, while offline
    std::uint32_t sessions : 24 = 0;  ///< of connected and disconnected devices
    Cause cause : 4 = Cause::login;
    /// Was online when the process died, and has time to come back: it is online until then.
    bool is_awaited : 1 = false;
    bool is_untold : 1 = false;  ///< subscribers are to know nothing of it yet
    bool stayed : 1 = false;     ///< has been online for a minute, some time
    const bool is_dormant : 1;
};

/// One user: online while any device is, or while it is awaited.
struct User : PresenceEntry {
    using Devices = boost::intrusive::list<Device, boost::intrusive::constant_time_size<false>>;

    explicit User(std::string_view name) : PresenceEntry(false), name(name) {}
    bool online() const { return here > 0 || is_awaited; }
    /// The longest limit of its connected devices; of a thousand, if there are more.
    Millis longest_limit() const;
    /// Connected, or with a session that is kept: not the inbox.
    bool has_device() const;
    /// Has any device ever logged in? If not, there is an inbox for the first.
    bool is_known() const { return since != 0; }

    const std::string name;
    Devices devices;         ///< logins that wait for the store and connected ones come first
    std::uint32_t here = 0;  ///< connected devices
    std::uint32_t kept = 0;  ///< bytes that its clients make the gateway keep, see MemoryLimits
};

static_assert(sizeof(User) <= 104);  // one size less of the allocator's than 112

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

/// Which users are online, of those whose home is this shard. It owns the users, and knows devices
/// but no connections; it belongs to the shard's thread and has no clock. A user may be dormant:
/// a look-up by its name wakes it.
///
/// A user's version grows with every change and is never below the wall clock's milliseconds, so
/// that it keeps growing after the user was forgotten and after a restart. After a crash all
/// versions begin at one that nobody was told of.
class Presence {
public:
    /// `most_known`: above that many users, some are forgotten early.
    explicit Presence(std::size_t most_known = 1'000'000) : most_known_(most_known) {}
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

    /// `wake` puts a user in the place of an entry that is dormant.
    using Wake = std::function<User&(PresenceEntry&)>;
    void wake_by(Wake wake) { wake_ = std::move(wake); }
    User& awake(PresenceEntry& entry) const {
        return entry.is_dormant ? wake_(entry) : static_cast<User&>(entry);
    }
    /// Puts a dormant user in the place of one that is awake, or the other way round: it looks like
    /// the other from now on. It owns the new one, and gives the old one back.
    void replace(PresenceEntry& old, PresenceEntry& replacement);

    void reserve(std::size_t users) { by_name_.reserve(users); }
    /// Once a second.
    void shrink() { shrink_if_sparse(by_name_); }
    /// The user of that name, or null.
    User* find(std::string_view name) const;
    User& find_or_create(std::string_view name);
    bool has(std::string_view name) const { return by_name_.contains(name); }

    /// Before the restart no version was larger than this one, except in users' rows.
    void begin_versions_at(std::uint64_t floor) { version_floor_ = floor; }
    /// A user of before the restart. If the user was online, it still is, and is awaited until that
    /// tick. The users' order is that of their changes again when all are restored.
    void restore(const PutUser& stored, Tick awaited_until);
    /// The same before that, when only its name is known; `entry` is the only one of its name.
    User& restore(std::string_view name);
    void restore(PresenceEntry& entry);
    void finish_restoring();

    /// A device has logged in. True if the user is online by that: who was awaited was so before.
    bool arrive(User& user, Device& device, WallMillis now);

    /// Another connection has taken the device over; the user stays online.
    void taken_over(User& user, Device& device, WallMillis now);

    /// A device has disconnected; it stays on the user's list. True if the user is offline by that.
    /// `last_seen` is the time of its last packet.
    bool depart(User& user, Device& device, Cause cause, WallMillis now, WallMillis last_seen);

    /// The gateway has asked the device to leave: it disconnects as above, but if it was the user's
    /// last one, the user stays online and is awaited until that tick.
    void leave(User& user, Device& device, WallMillis now, WallMillis last_seen, Tick until);

    /// Users who were awaited until `upto` or a tick before, and are not back, are offline for that
    /// cause. Looks at `most` users who were awaited, and calls `lost` for each who is offline now,
    /// with the ms since its last packet; it is shown as below. True: there are more.
    [[nodiscard]] bool end_awaited(Tick upto, std::size_t most, Cause cause, WallMillis now,
                                   const std::function<void(const User&, Millis)>& lost);

    /// Shows what presence knows of the user of that name, if there is one, and wakes nobody: if
    /// the user is dormant, it is a copy without devices.
    void show(std::string_view name, const std::function<void(User&)>& visitor) const;

    /// Visits users in the order of their last change, those behind `after`, at most `most`, until
    /// the visitor returns false. Returns the position to continue after; nothing at the end. Who
    /// changes between two calls moves to the end, and is visited there. They are shown as
    /// above; the visitor must not ask for users by their names.
    std::optional<PresencePosition> visit(PresencePosition after, std::size_t most,
                                          const std::function<bool(User&)>&) const;
    /// The same, with those who are dormant as what they are. The visitor may replace or forget the
    /// one that it is shown, and then returns true.
    std::optional<PresencePosition> visit_entries(PresencePosition after, std::size_t most,
                                                  const std::function<bool(PresenceEntry&)>&) const;
    /// That of the last of them.
    PresencePosition latest() const {
        return by_change_.empty() ? PresencePosition{} : by_change_.rbegin()->position();
    }

    /// Examines the next sixtieth of all users and forgets those that have been offline for longer
    /// than `kept`. When very many are known, because clients invent names, those that were never
    /// online for a minute are forgotten after one. `forgotten` is called for each.
    void forget_some(WallMillis now, Millis kept,
                     const std::function<void(const User&)>& forgotten = {});

    /// Forgets the user of that name at once. False: there is none, or it has a session, or is
    /// online.
    bool forget_now(std::string_view name);

    std::size_t users() const { return by_name_.size(); }
    std::size_t name_bytes() const { return name_bytes_; }
    std::size_t online() const { return online_; }

private:
    struct Hash {
        using is_transparent = void;
        using is_avalanching = void;
        std::size_t operator()(std::string_view name) const { return keyed_hash(name); }
        std::size_t operator()(const PresenceEntry* user) const {
            return (*this)(user->user_name());
        }
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const PresenceEntry* a, const PresenceEntry* b) const { return a == b; }
        bool operator()(std::string_view name, const PresenceEntry* user) const {
            return user->user_name() == name;
        }
        bool operator()(const PresenceEntry* user, std::string_view name) const {
            return user->user_name() == name;
        }
    };

    static void to_front(User& user, Device& device);
    static bool to_back(User& user, Device& device);
    void await(const PresenceEntry& user, Tick until);
    void change(PresenceEntry& user, Cause cause, WallMillis now);
    PresenceEntry* at(PresencePosition position);
    void forget(User& user);

    const std::size_t most_known_;
    Wake wake_;
    boost::unordered_flat_set<PresenceEntry*, Hash, Equal> by_name_;
    boost::intrusive::set<PresenceEntry> by_change_;  ///< owns them; the latest change comes last
    std::size_t online_ = 0;
    std::size_t name_bytes_ = 0;
    PresencePosition sweep_;
    /// A user that was online when the process died, or when the gateway asked its last device to
    /// leave, and has not come or gone since.
    struct Awaited {
        Tick until;
        PresencePosition user;

        bool operator<(const Awaited& other) const { return until > other.until; }
    };
    std::priority_queue<Awaited> awaited_;  ///< the earliest on top; also those who are back
    std::uint64_t version_floor_ = 0;       ///< no forgotten user had a greater one
    [[no_unique_address]] OwnerThread thread_;
};

/// A user's presence for the store.
PutUser stored_presence(const User& user);

/// A user's presence as JSON, for the HTTP API and for `presence/{user}`.
std::string to_json(const User& user, Millis now, WallMillis wall);

/// The user's presence as the retained message to `presence/{user}`; null if nobody is to know of
/// it yet, or the name is too long for a topic.
MessageRef presence_message(const User& user, Millis now, WallMillis wall);

}  // namespace pulsegate
