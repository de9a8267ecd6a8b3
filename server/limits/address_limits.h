#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/limits/bans.h"
#include "server/limits/home_bans.h"
#include "server/limits/lifted_bans.h"
#include "server/limits/recent_counts.h"

namespace pulsegate {

struct AddressLimitSettings {
    std::size_t max_connections_per_address = 10'000;  ///< 0: any number
    unsigned ban_failures = 100;  ///< different passwords within a minute; 0: no bans
    Millis ban_time = 5 * 60'000;
};

/// Counts the connections and wrong passwords of each address, and bans addresses that guess
/// passwords. An address has clients on all shards, so any thread may call it. A lock is enough,
/// because each connection calls it only a few times.
class AddressLimits {
public:
    enum class Standing : std::uint8_t {
        ok,
        too_many,          ///< the address has too many connections
        banned,            ///< the address is banned
        refused_silently,  ///< refused without an answer: too many refused connections are open
    };

    explicit AddressLimits(const AddressLimitSettings& settings) : settings_(settings) {}

    /// Applies other limits; existing connections and bans stay.
    void use(const AddressLimitSettings& settings);

    /// Counts one more connection of the address until `leave`, even if it is refused.
    [[nodiscard]] Standing enter(const Address& address, Millis now);
    void leave(const Address& address);

    /// A client at the address sent a wrong password; `guess` is a fingerprint of user and
    /// password. True if the address is banned for that.
    [[nodiscard]] bool failed(const Address& address, std::uint64_t guess, Millis now);

    /// The cause of the address's ban; nothing if it is not banned.
    [[nodiscard]] std::optional<BanCause> banned(const Address& address, Millis now) const;

    /// The administrator bans the address. False if there are too many such bans.
    [[nodiscard]] bool order_ban(const Address& address, Millis now, Millis until,
                                 std::string reason);

    /// True at the first connection from this address that does not speak MQTT, such as a
    /// scanner's. If addresses share a place in the table, only the last one is remembered.
    [[nodiscard]] bool is_new_scanner(const Address& address);

    /// The bans of this node, without those of its home.
    std::vector<Ban> bans(Millis now) const;
    /// Up to `most` bans, after the page whose `next` is `after`.
    BanPage bans(std::uint64_t after, std::size_t most, Millis now) const;
    /// False if the address was not banned.
    [[nodiscard]] bool lift_ban(const Address& address, Millis now);

    // For nodes of a cluster that tell each other of bans: edges tell the home of the bans that
    // they set, and the home tells edges of its bans, and which bans are lifted.

    /// The time until the ban ends that this node has; nothing if it has none.
    [[nodiscard]] std::optional<Millis> ban_left(const Address& address, Millis now) const;
    /// An edge has banned the address. It knew the lifts up to `lifts_known` and had the ban
    /// nevertheless, so only a later lift lifts it. True if the address was not banned before, or
    /// not for so long: other edges must be told.
    bool hear_ban(const Address& address, Millis left, std::uint32_t lifts_known, Millis now);
    struct Lifted {
        bool was_banned = false;
        BanLift lift{};
    };
    /// Lifts the ban here, and remembers that, even if there was none: an edge may have set one
    /// that this node has not heard of yet.
    Lifted lift_everywhere(const Address& address, Millis now);
    /// The lifts of the last ban-time, in their order. No ban from before them is left.
    std::vector<BanLift> lifts(Millis now);

    /// On an edge: the home begins to tell all its bans. Those of the last link hold until
    /// `end_home_bans`.
    void begin_home_bans();
    /// The home has a ban of this address. If the administrator has ordered it, it replaces one of
    /// this node.
    void hear_home_ban(const Address& address, Millis left, bool ordered, Millis now);
    /// The home has told all its bans.
    void end_home_bans();
    /// The home tells no bans.
    void forget_home_bans();

    // For an upgrade, in which another process takes over the same addresses.

    /// The counts of wrong passwords.
    struct Counts {
        RecentCounts<std::pair<Address, std::uint64_t>>::Pages guesses{};
        RecentCounts<Address>::Pages different_guesses{};
        RecentCounts<Address>::Pages failures{};
    };
    Counts counts(Millis now);
    void adopt(const Counts& counts, Millis now);
    /// False if there are too many bans.
    [[nodiscard]] bool adopt(const Address& address, const Ban& ban, Millis now);

private:
    std::optional<BanCause> find_ban(const Address& address, Millis now) const;

    /// The most refused connections of one address that may be open at once to receive the reason.
    static constexpr std::size_t most_told_why = 64;

    AddressLimitSettings settings_;
    mutable std::mutex mutex_;
    boost::unordered_flat_map<Address, std::uint32_t> connections_;
    RecentCounts<std::pair<Address, std::uint64_t>> guesses_;
    RecentCounts<Address> different_guesses_;
    RecentCounts<Address> failures_;
    BanList<Address> bans_;
    HomeBans home_bans_;
    LiftedBans lifted_;
    std::array<std::uint64_t, 1024> scanners_{};  ///< hashes of addresses
};

}  // namespace pulsegate
