#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/limits/fair_order.h"

namespace pulsegate {

/// The logins that wait for their turn on one shard. They take turns by address, so a thousand
/// logins from one place don't delay a single one from another. It has no clock.
class LoginQueue {
public:
    using Ticket = std::uint64_t;  ///< later logins have greater tickets

    /// `wait` is the longest that a login waits.
    explicit LoginQueue(Millis wait) : wait_(wait) {}

    bool empty() const { return waiting_.empty(); }
    std::size_t size() const { return waiting_.size(); }
    Millis longest_wait() const { return wait_; }
    void use(Millis longest_wait) { wait_ = longest_wait; }

    void add(const Address& address, Ticket ticket, Millis now);

    /// Takes out the next login, if any waits.
    [[nodiscard]] std::optional<Ticket> next();

    /// Takes out a login that has waited too long, and at least for `least`.
    [[nodiscard]] std::optional<Ticket> next_overdue(Millis now, Millis least = 0);

private:
    struct Waiting {
        Address address;
        Millis since;
    };

    Millis wait_;
    std::map<Ticket, Waiting> waiting_;  ///< in order of arrival
    FairOrder<Address> order_;           ///< in order of service
};

}  // namespace pulsegate
