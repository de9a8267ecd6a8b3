#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/limits/fair_order.h"

namespace pulsegate {

struct LoginQueueSettings {
    double rate = 5000;  ///< logins a second; 0: any number
    Millis wait = 5000;  ///< the longest that one waits
};

/// Whose turn it is to log in: so many a second, and those who wait take turns by their address, so
/// that a thousand logins from one place don't hold up the one from another. It has no clock.
class LoginQueue {
public:
    using Ticket = std::uint64_t;  ///< greater for a login that came later

    explicit LoginQueue(const LoginQueueSettings& settings) : settings_(settings) {}

    bool empty() const { return waiting_.empty(); }
    std::size_t size() const { return waiting_.size(); }
    /// The longest that one waits.
    Millis longest_wait() const { return settings_.wait; }

    /// May one log in now? If so, it counts as done.
    [[nodiscard]] bool take(Millis now);

    /// The one that was allowed last did not need it.
    void give_back() { allowance_ += 1; }

    void add(const Address& address, Ticket ticket, Millis now);

    /// Whose turn it is, if there is one who waits; to be asked after `take`.
    [[nodiscard]] std::optional<Ticket> next();

    /// A login that has waited too long, and waits no more.
    [[nodiscard]] std::optional<Ticket> next_overdue(Millis now);

private:
    struct Waiting {
        Address address;
        Millis since;
    };

    const LoginQueueSettings settings_;
    double allowance_ = 1;
    Millis allowed_at_ = 0;
    std::map<Ticket, Waiting> waiting_;  ///< in the order in which they came
    FairOrder<Address> order_;           ///< in that in which they are served
};

}  // namespace pulsegate
