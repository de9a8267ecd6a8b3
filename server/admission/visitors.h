#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "server/admission/address.h"
#include "server/admission/bans.h"
#include "server/admission/recent.h"
#include "server/clock.h"

namespace pulsegate {

struct VisitorSettings {
    std::size_t max_connections_per_address = 10'000;  ///< 0: any number
    unsigned ban_failures = 100;  ///< different ones within a minute; 0: no bans
    Millis ban_time = 5 * 60'000;
};

/// Where the gateway's clients come from: how many connections each address has, and which are
/// banned because they tried wrong passwords. Any thread may ask: an address has clients on all
/// shards, and each of them asks a few times in its life.
class Visitors {
public:
    enum class Standing : std::uint8_t {
        welcome,
        crowded,   ///< its address has too many connections
        banned,    ///< its address guesses passwords
        shut_out,  ///< and too many of those are there to be told one by one
    };

    explicit Visitors(const VisitorSettings& settings) : settings_(settings) {}

    /// One more connection from there, until `leave`, whatever the answer.
    Standing enter(const Address& address, Millis now);
    void leave(const Address& address);

    /// It showed a wrong password; `guess` is a fingerprint of it and of the user. True if its
    /// address is banned for that.
    bool failed(const Address& address, std::uint64_t guess, Millis now);

    bool banned(const Address& address, Millis now) const;
    std::vector<Ban> bans(Millis now) const;
    /// False if there was none.
    bool lift_ban(const Address& address);

private:
    /// So many of those who are turned away may be there at once to hear why.
    static constexpr std::size_t courtesy = 64;

    const VisitorSettings settings_;
    mutable std::mutex mutex_;
    boost::unordered_flat_map<Address, std::uint32_t> connections_;
    RecentCounts<std::pair<Address, std::uint64_t>> guesses_;
    RecentCounts<Address> different_guesses_;
    RecentCounts<Address> failures_;
    BanList<Address> bans_;
};

}  // namespace pulsegate
