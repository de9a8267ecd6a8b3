#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/limits/fair_order.h"

namespace pulsegate {

/// Whose turn it is to log in on one shard: those who wait take turns by their address, so that a
/// thousand logins from one place don't hold up the one from another. It has no clock.
class LoginQueue {
public:
    using Ticket = std::uint64_t;  ///< greater for a login that came later

    /// `wait`: the longest that one waits.
    explicit LoginQueue(Millis wait) : wait_(wait) {}

    bool empty() const { return waiting_.empty(); }
    std::size_t size() const { return waiting_.size(); }
    Millis longest_wait() const { return wait_; }
    void use(Millis longest_wait) { wait_ = longest_wait; }

    void add(const Address& address, Ticket ticket, Millis now);

    /// Whose turn it is, if there is one who waits.
    [[nodiscard]] std::optional<Ticket> next();

    /// A login that has waited too long, and waits no more.
    [[nodiscard]] std::optional<Ticket> next_overdue(Millis now);

private:
    struct Waiting {
        Address address;
        Millis since;
    };

    Millis wait_;
    std::map<Ticket, Waiting> waiting_;  ///< in the order in which they came
    FairOrder<Address> order_;           ///< in that in which they are served
};

}  // namespace pulsegate
