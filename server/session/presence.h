#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/clock.h"

namespace pulsegate {

/// Why a user's presence changed.
enum class Cause : std::uint8_t {
    login,            ///< the first device came
    logout,           ///< DISCONNECT by the client
    timeout,          ///< silent past the limit
    connection_lost,  ///< the connection ended without a DISCONNECT
    taken_over,       ///< another connection continues the same client: stays online
    kicked,           ///< the gateway threw the client out: bad packet, slow consumer
    shutdown,         ///< the gateway stops
};

std::string_view name(Cause cause);

struct User;

/// A client of a user, as presence sees it: one that is here, or one that is away and has a
/// session. It takes itself off the user's list.
class Device : public boost::intrusive::list_base_hook<
                   boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    Device(std::string client, WallMillis since) : client(std::move(client)), since(since) {}
    virtual ~Device() = default;

    /// When the last complete packet of a client that is here came.
    virtual Millis last_packet() const = 0;

    const std::string client;
    WallMillis since;   ///< of its present connection
    bool here = false;  ///< connected
};

/// One user: online while any device is.
struct User {
    using Devices = boost::intrusive::list<Device, boost::intrusive::constant_time_size<false>>;

    explicit User(std::string_view name) : name(name) {}
    bool online() const { return here > 0; }

    const std::string name;
    Devices devices;           ///< those who are here come first
    WallMillis since = 0;      ///< of the present state
    WallMillis last_seen = 0;  ///< of the last packet, while offline
    std::uint64_t version = 0;
    std::uint32_t place = 0;     ///< in Presence's roll
    std::uint32_t sessions = 0;  ///< that refer to it, of devices that are away too
    std::uint32_t here = 0;      ///< devices that are
    Cause cause = Cause::login;
};

/// One change of presence: a copy, so that it can leave the shard.
struct PresenceChange {
    WallMillis time;
    std::string user;
    bool online;
    Cause cause;
    std::uint64_t version;
    std::string client;
    Millis silent;  ///< since the client's last packet
};

/// `PresenceChange` as one JSON line without its line break.
std::string to_json(const PresenceChange& change);

/// Who is online, for the users whose home is one shard. It knows users and devices and nothing of
/// connections; it has no clock.
///
/// A version grows with every change and is never below the wall clock's milliseconds: a user who
/// is forgotten, or a gateway that restarts, goes on above what was said before.
class Presence {
public:
    /// The user of that name, or null.
    User* find(std::string_view name) const;
    User& find_or_create(std::string_view name);

    /// A device came. True if the user came online with it.
    bool arrive(User& user, Device& device, WallMillis now);

    /// The device now speaks through a new connection; the user never left.
    void taken_over(User& user, Device& device, WallMillis now);

    /// A device went, and stays on the user's list as one that is away. True if the user went
    /// offline with it. `last_seen` is that of its last packet.
    bool depart(User& user, Device& device, Cause cause, WallMillis now, WallMillis last_seen);

    /// Visits users one by one from position `from` downwards, `most` of them or until the visitor
    /// says false, and returns the position to go on from, 0 at the end. Users who come or are
    /// forgotten in between disturb no one else's turn.
    std::size_t visit(std::size_t from, std::size_t most,
                      const std::function<bool(const User&)>&) const;

    /// Forgets users who have been offline since before `limit`, looking at a sixtieth of them.
    void forget_some(WallMillis limit);

    std::size_t users() const { return roll_.size(); }
    std::size_t name_bytes() const { return name_bytes_; }
    std::size_t online() const { return online_; }

private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view name) const {
            return boost::hash<std::string_view>()(name);
        }
        std::size_t operator()(const User* user) const { return (*this)(user->name); }
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const User* a, const User* b) const { return a == b; }
        bool operator()(std::string_view name, const User* user) const {
            return user->name == name;
        }
        bool operator()(const User* user, std::string_view name) const {
            return user->name == name;
        }
    };

    static void to_front(User& user, Device& device);
    void change(User& user, Cause cause, WallMillis now);
    void forget(User& user);

    boost::unordered_flat_set<User*, Hash, Equal> by_name_;
    std::vector<std::unique_ptr<User>> roll_;  ///< dense; the last one fills a gap
    std::size_t online_ = 0;
    std::size_t name_bytes_ = 0;
    std::size_t sweep_ = 0;
    std::uint64_t forgotten_version_ = 0;  ///< the greatest of all who were forgotten
};

/// What is asked about a user and told in answer, over HTTP and in `presence/{user}` alike.
std::string to_json(const User& user, Millis now, WallMillis wall);

inline constexpr std::string_view presence_prefix = "presence/";

inline constexpr std::string_view inbox_prefix = "inbox/";

/// A user's name as one level of a topic: `/`, `+`, `#` and `%` are percent-encoded.
std::string topic_level(std::string_view user);

/// `presence/{user}`, the name as one level.
std::string presence_topic(std::string_view user);

/// The one user whose presence this filter selects, if it is such a filter.
std::optional<std::string> presence_user(std::string_view filter);

/// `inbox/{user}`, the name as one level.
std::string inbox_topic(std::string_view user);

/// The user whose inbox this topic is, if it is such a topic.
std::optional<std::string> inbox_user(std::string_view topic);

/// Does this filter have wildcards and select presence? One that begins with a wildcard never does:
/// who listens to "#" did not ask who comes and goes.
bool selects_presence(std::string_view filter);

}  // namespace pulsegate
