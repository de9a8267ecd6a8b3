#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "server/base/clock.h"
#include "server/limits/address.h"

namespace pulsegate {

/// A ban of an address that was lifted. Lifts have numbers from 1 on, in their order.
struct BanLift {
    std::uint32_t number = 0;
    Address address{};
};

/// The latest lifts of bans of addresses. Another node may set a ban before it hears of the lift,
/// and tell this node later; such a ban must not come back. It has no clock.
class LiftedBans {
public:
    BanLift add(const Address& address, Millis now);
    /// The number of the address's latest lift; 0 if there is none.
    std::uint32_t number_of(const Address& address) const;
    /// Forgets lifts from before this time.
    void forget(Millis before);

    struct Entry {
        BanLift lift{};
        Millis when = 0;
    };
    /// In their order.
    const std::deque<Entry>& all() const { return lifts_; }

    /// Beyond that, the oldest are forgotten.
    static constexpr std::size_t most = 10'000;

private:
    void drop_oldest();

    std::deque<Entry> lifts_;
    boost::unordered_flat_map<Address, std::uint32_t> numbers_;
    std::uint32_t last_ = 0;
};

}  // namespace pulsegate
