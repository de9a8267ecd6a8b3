#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/owner_thread.h"
#include "server/limits/bans.h"
#include "server/limits/recent_counts.h"

namespace pulsegate {

struct ClientLimitSettings {
    unsigned ban_flaps = 30;      ///< broken connections within a minute; 0: no bans
    unsigned duel_takeovers = 5;  ///< takeovers within a minute; 0: none is delayed
    Millis ban_time = 5 * 60'000;
};

/// Counts connections and takeovers of the clients of one shard. It bans clients that reconnect all
/// the time, and delays takeovers of a client id that two devices fight for. The shard owns it and
/// uses it on its thread. It has no clock.
class ClientLimits {
public:
    explicit ClientLimits(const ClientLimitSettings& settings) : settings_(settings) {}

    /// Applies other limits; existing bans stay.
    void use(const ClientLimitSettings& settings) { settings_ = settings; }

    /// The cause of a ban of the client or of its user; nothing if there is none.
    [[nodiscard]] std::optional<BanCause> banned(std::string_view user, std::string_view client,
                                                 Millis now) const;

    /// The administrator bans a client, or all clients of the user if `client` is "". False if
    /// there are too many such bans.
    [[nodiscard]] bool order_ban(std::string_view user, std::string_view client, Millis now,
                                 Millis until, std::string reason);

    /// The client's connection broke, timed out or was closed by the gateway. True if the client is
    /// banned for that.
    [[nodiscard]] bool broke_off(std::string_view user, std::string_view client, Millis now);

    /// The client has sent DISCONNECT. True if the client is banned because it only connects and
    /// disconnects: a login costs the same however it ends.
    [[nodiscard]] bool logged_out(std::string_view user, std::string_view client, Millis now);

    /// How long another connection must wait before it takes the client over, in milliseconds.
    /// Otherwise two devices with one client id that reconnect at once would never stop.
    [[nodiscard]] Millis pause_before_takeover(std::string_view user, std::string_view client,
                                               Millis now);

    /// Call it once a second.
    void tick(Millis now) {
        flaps_.tick(now);
        takeovers_.tick(now);
    }

    std::vector<Ban> bans(Millis now) const;
    /// Up to `most` bans, only those of the user if one is named, after the page whose `next` is
    /// `after`.
    BanPage bans(const std::optional<std::string>& user, std::uint64_t after, std::size_t most,
                 Millis now) const;
    /// False if there was no such ban.
    [[nodiscard]] bool lift_ban(std::string_view user, std::string_view client, Millis now);

    // For an upgrade, in which another process takes over the same clients.

    struct Counts {
        RecentCounts<std::uint64_t>::Pages flaps{};
        RecentCounts<std::uint64_t>::Pages takeovers{};
    };
    Counts counts(Millis now);
    /// Counts of other shards' clients do no harm.
    void adopt(const Counts& counts, Millis now);
    /// False if there are too many bans.
    [[nodiscard]] bool adopt(const Ban& ban, Millis now);

private:
    using Name = std::pair<std::string, std::string>;  ///< user and client id
    struct NameHash {
        using is_avalanching = void;
        std::size_t operator()(const Name& name) const {
            return keyed_hash(name.first, name.second);
        }
    };

    static std::optional<Ban> named(const Name& name);
    bool count_flap(std::string_view user, std::string_view client, unsigned weight, Millis now);

    ClientLimitSettings settings_;
    RecentCounts<std::uint64_t> flaps_;  ///< weighted events
    RecentCounts<std::uint64_t> takeovers_;
    BanList<Name, NameHash> bans_;  ///< client "": all clients of the user
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
