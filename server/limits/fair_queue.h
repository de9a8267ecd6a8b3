#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "server/limits/address.h"
#include "server/limits/fair_order.h"

namespace pulsegate {

/// A queue for costly work. Addresses take turns, and the users of one address take turns among
/// themselves. If the queue is full, drop the last entry in this order; so no address can lock the
/// others out, however many entries it adds. It has no clock and no lock.
class FairQueue {
public:
    using Ticket = std::uint64_t;  ///< later entries have greater tickets

    bool empty() const { return waiting_.empty(); }
    std::size_t size() const { return waiting_.size(); }
    bool contains(Ticket ticket) const { return waiting_.contains(ticket); }

    void add(const Address& address, std::string_view user, Ticket ticket);

    /// Takes out the next entry.
    std::optional<Ticket> take_first();
    /// Takes out the last entry.
    std::optional<Ticket> take_last();
    void remove(Ticket ticket);

private:
    using User = std::uint64_t;  ///< keyed hash of the name
    using Users = FairOrder<User>;
    struct Waiting {
        Address address;
        User user;
    };

    Ticket taken(const Address& address, Ticket ticket);

    FairOrder<Address> addresses_;  ///< `users_` decides which user gets the address's turn
    boost::unordered_flat_map<Address, Users> users_;
    boost::unordered_flat_map<Ticket, Waiting> waiting_;
};

}  // namespace pulsegate
