#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "server/base/clock.h"
#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/limits/address.h"
#include "server/limits/login_rate.h"
#include "server/login/login_queue.h"
#include "server/loop/rounds.h"

namespace pulsegate {

/// Gives the logins of one shard their turns: a few in each round of the event loop, as many a
/// second as the rate allows, and none while the loop is late. It owns the queue of waiting logins,
/// and lives on the shard's thread.
class LoginPacer {
public:
    using Ticket = LoginQueue::Ticket;

    /// Called when a login's turn has come, or when it has waited too long (`in_time` is false).
    /// Returns false if its client has gone, so its turn is free.
    using Serve = std::function<bool(Ticket, bool in_time)>;

    /// `rate` is for all shards; `wait` is the longest that a login waits.
    LoginPacer(Rounds& rounds, LoginRate& rate, Millis wait, Millis max_loop_lag,
               Counters& counters, Serve serve);

    /// Applies other limits, also to logins that wait already.
    void use(Millis wait, Millis max_loop_lag) {
        queue_.use(wait);
        max_loop_lag_ = max_loop_lag;
    }

    /// True if a client may log in at once: no other login waits, the loop is in time, and the rate
    /// allows it. Otherwise counts the reason.
    [[nodiscard]] bool take_turn(Millis now);

    /// Queues a login. Tickets must grow.
    void add(const Address& address, Ticket ticket, Millis now) {
        queue_.add(address, ticket, now);
    }

    /// The longest that a login waits.
    Millis longest_wait() const { return queue_.longest_wait(); }
    std::size_t waiting() const { return queue_.size(); }

    /// While it holds, no login gets a turn or is refused.
    void hold(bool holds) { holds_ = holds; }

    /// Tells it how late the loop was, as measured elsewhere.
    void report_lag(Millis lag) { lag_ = lag; }

private:
    bool may_log_in(Millis now);
    void expect_turn();
    void begin_turn(Millis late);
    int refuse_overdue(Millis now, Millis least, int most);
    [[nodiscard]] bool serve_queue(Millis now);
    void rest();

    Rounds& rounds_;
    LoginRate& rate_;
    LoginQueue queue_;
    boost::asio::steady_timer timer_;
    Millis max_loop_lag_;
    Counters& counters_;
    const Serve serve_;
    Millis lag_ = 0;          ///< of the loop, when it was last measured
    std::uint64_t turn_ = 0;  ///< the round that it counts for
    int logins_this_turn_ = 0;
    bool holds_ = false;
    bool expected_ = false;  ///< the next turn is on its way
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
