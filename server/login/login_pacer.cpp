#include "server/login/login_pacer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace pulsegate {

namespace {

/// Logins in one round; other work gets its turn in between.
constexpr int logins_a_turn = 2;
/// Logins in one round that came too late or whose client has gone: they cost less.
constexpr int refusals_a_turn = 64;

/// A login is refused earlier only if the rate or a late loop holds it up, not because others have
/// the turns before it.
constexpr Millis shortest_wait = 1'000;

/// The pause of the queue when the rate or a late loop holds logins up.
constexpr auto rest_time = std::chrono::milliseconds(2);

}  // namespace

LoginPacer::LoginPacer(Rounds& rounds, LoginRate& rate, Millis wait, Millis max_loop_lag,
                       Counters& counters, Serve serve)
    : rounds_(rounds),
      rate_(rate),
      queue_(wait),
      timer_(rounds.context()),
      max_loop_lag_(max_loop_lag),
      counters_(counters),
      serve_(std::move(serve)) {}

bool LoginPacer::take_turn(Millis now) {
    thread_.assert_here();
    if (turn_ != rounds_.round()) {
        turn_ = rounds_.round();
        logins_this_turn_ = 0;
    }
    if (may_log_in(now)) {
        ++logins_this_turn_;
        return true;
    }
    expect_turn();
    return false;
}

bool LoginPacer::may_log_in(Millis now) {
    if (logins_this_turn_ >= logins_a_turn) return false;
    lag_ = std::max(lag_, now - rounds_.round_began());
    if (lag_ > max_loop_lag_) {
        counters_.count(Limit::max_loop_lag);
        return false;
    }
    if (!queue_.empty() || !rate_.take(now)) {
        counters_.count(Limit::login_rate);
        return false;
    }
    return true;
}

/// The next turn comes after all pending work and everything that sockets bring meanwhile, so the
/// time until then is the lag of the loop. While no login waits, nothing is posted, because that
/// would cost a single login two more rounds of the loop. The time since the round began says as
/// much.
void LoginPacer::expect_turn() {
    if (std::exchange(expected_, true)) return;
    rounds_.later([this, since = monotonic_now()] {
        rounds_.later([this, since] { begin_turn(monotonic_now() - since); });
    });
}

void LoginPacer::begin_turn(Millis late) {
    const Millis now = monotonic_now();
    lag_ = late;
    turn_ = rounds_.round();
    logins_this_turn_ = 0;
    expected_ = false;
    if (holds_) return rest();
    const int refused = refuse_overdue(now, shortest_wait, refusals_a_turn);
    if (lag_ > max_loop_lag_ || !serve_queue(now))
        refuse_overdue(now, 0, refusals_a_turn - refused);
    if (queue_.empty()) return;
    if (logins_this_turn_ == logins_a_turn) return expect_turn();
    rest();
}

/// Refuses up to `most` logins that have waited for login-wait, and at least for `least`. Returns
/// how many.
int LoginPacer::refuse_overdue(Millis now, Millis least, int most) {
    for (int refused = 0; refused < most; ++refused) {
        const auto ticket = queue_.next_overdue(now, least);
        if (!ticket) return refused;
        counters_.count(Limit::login_wait);
        serve_(*ticket, false);
    }
    return most;
}

/// Returns false if the rate holds the others up.
bool LoginPacer::serve_queue(Millis now) {
    for (int i = 0; i < refusals_a_turn; ++i) {
        if (logins_this_turn_ == logins_a_turn || queue_.empty()) return true;
        if (!rate_.take(now)) return false;
        if (serve_(*queue_.next(), true))
            ++logins_this_turn_;
        else
            rate_.give_back();
    }
    return true;
}

void LoginPacer::rest() {
    expected_ = true;
    rounds_.after(timer_, rest_time, [this] {
        const auto since = std::chrono::steady_clock::now() - timer_.expiry();
        begin_turn(since / std::chrono::milliseconds(1));
    });
}

}  // namespace pulsegate
